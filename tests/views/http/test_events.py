from __future__ import annotations

import socket
import time

from tests.contract.view_store_contract import Bench, user
from tests.views.http.conftest import Serve, Serving

FOLLOW = "/views/users/follow"
WAIT_S = 30.0


def test_follower_gets_the_result_and_each_change(bench: Bench, serving: Serving) -> None:
    with serving.follow(FOLLOW, where="city = 'Oslo'") as events:
        first = next(events)
        assert first["event"] == "snapshot"
        assert first["data"]["is_snapshot"]
        assert [(each["op"], each["row"]["id"]) for each in first["data"]["changes"]] == [("+", 0), ("+", 3)]
        bench.write(1, [user(0, "Rome"), user(8)], batch=1)
        second = next(events)
        assert second["event"] == "changes"
        assert [(each["op"], each["row"]["id"]) for each in second["data"]["changes"]] == [("-", 0), ("+", 8)]
        assert second["id"] != first["id"]


def test_follower_resumes_with_the_id_of_its_last_event(bench: Bench, serving: Serving) -> None:
    with serving.follow(FOLLOW) as events:
        last = next(events)["id"]
    with serving.follow(FOLLOW, last_event_id=last) as events:
        first = next(events)
        assert (first["event"], first["data"]["changes"]) == ("changes", [])
        bench.write(1, [user(8)], batch=1)
        assert [each["row"]["id"] for each in next(events)["data"]["changes"]] == [8]
    with serving.follow(FOLLOW, last_event_id=last) as events:
        again = next(events)
        assert (again["event"], len(again["data"]["changes"])) == ("snapshot", 7)


def test_follower_is_told_why_its_stream_ends(bench: Bench, serving: Serving) -> None:
    with serving.follow(FOLLOW) as events:
        next(events)
        serving.views.views.folder("users").remove()
        last = next(events)
        assert (last["event"], last["data"]["error"]) == ("error", "there is no view users")
        assert list(events) == []


def test_follower_that_reads_nothing_is_disconnected(bench: Bench, serve: Serve) -> None:
    """Its steps are larger than all buffers on the way, and nothing of them is kept for it."""
    serving = serve(send_s_max=0.5)
    with socket.create_connection(("127.0.0.1", serving.port)) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.sendall(b"GET /views/users/follow HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        deadline_s = time.monotonic() + WAIT_S
        batch = 1
        while batch == 1 or serving.views.followers:
            assert time.monotonic() < deadline_s, "it is still connected"
            bench.write(1, [user(each, f"{batch}" * 10_000) for each in range(600)], batch=batch)
            batch += 1
            time.sleep(0.3)
