from __future__ import annotations

import threading

from headrace.edges.room import Room


def test_waiting_ends_when_room_is_announced() -> None:
    room = Room()
    room.miss()
    found: list[bool] = []
    thread = threading.Thread(target=lambda: found.append(room.wait(60)))
    thread.start()
    room.announce()
    thread.join()
    assert found == [True]


def test_waiting_ends_without_room_after_its_time() -> None:
    room = Room()
    room.miss()
    assert not room.wait(0.001)


def test_function_is_called_once_when_there_is_room() -> None:
    room = Room()
    calls: list[int] = []
    room.miss()
    room.call_once(lambda: calls.append(1))
    assert calls == []
    room.announce()
    room.announce()
    assert calls == [1]


def test_nobody_waits_if_room_came_between_the_offer_and_the_wait() -> None:
    room = Room()
    room.miss()
    room.announce()
    calls: list[int] = []
    room.call_once(lambda: calls.append(1))
    assert calls == [1]
    assert room.wait(0)
