"""Lines through rotation and restarts, in front of a real broker; tests/cli/edge/test_files.py has the command."""

from __future__ import annotations

import threading

import pytest

from headrace.edges.files.parsing import parser_of
from headrace.kafka.cluster import Cluster
from headrace.kafka.committed import read_committed
from tests.edges.files.conftest import Logs, headers_of

LONG = "x" * 120
"""Long enough that ten lines are a mark."""


def numbered(count: int, start: int = 0) -> str:
    return "".join(f"{number} {LONG}\n" for number in range(start, start + count))


def numbers(logs: Logs) -> list[int]:
    return [int(value.split()[0]) for value in logs.values]


def test_first_run_starts_at_the_end_and_new_files_at_their_beginning(logs: Logs) -> None:
    logs.write("old.log", "before\nhalf")
    with logs.run() as running:
        running.read()
        logs.write("old.log", " a line\nafter\n")
        logs.write("new.log", "first of a new file\n")
        running.read()
    assert sorted(logs.values) == ["after", "first of a new file", "half a line"]


def test_from_beginning_reads_what_the_files_have_and_a_restart_continues(logs: Logs) -> None:
    logs.write("a.log", "one\ntwo\n")
    with logs.run(from_beginning=True) as running:
        running.read()
    logs.write("a.log", "three\n")
    logs.write("b.log", "while it did not run\n")
    for _ in range(2):
        with logs.run() as running:
            running.read()
    assert sorted(logs.values) == ["one", "three", "two", "while it did not run"]


def test_renamed_file_is_read_to_its_end_before_it_is_let_go(logs: Logs) -> None:
    path = logs.write("a.log", "")
    with logs.run(from_beginning=True, rotate_wait_s=60) as running:
        logs.write("a.log", "one\n")
        running.read()
        path.rename(logs.folder / "a.log.1")
        logs.write("a.log", "of the new file\n")
        running.read()
        logs.write("a.log.1", "its writer had it open\nno end")
        running.read()
        assert len(running.files) == 2
        running.pass_s(61)
        running.pass_s(1)
        assert (len(running.files), running.files.counts["rotated"]) == (1, 1)
    assert logs.values == ["one", "of the new file", "its writer had it open", "no end"]
    assert {header["file"] for header in logs.headers()} == {str(path).encode()}


def test_file_that_was_renamed_while_the_edge_did_not_run_is_read_to_its_end(logs: Logs) -> None:
    path = logs.write("a.log", "one\n")
    with logs.run(from_beginning=True) as running:
        running.read()
    logs.write("a.log", "two\n")
    path.rename(logs.folder / "a.log.1")
    logs.write("a.log", "three\n")
    with logs.run() as running:
        running.read()
    assert sorted(logs.values) == ["one", "three", "two"]
    assert logs.problems == []


def test_deleted_file_that_is_open_is_read_to_its_end(logs: Logs) -> None:
    path = logs.write("a.log", "one\n")
    with logs.run(from_beginning=True) as running:
        running.read()
        with path.open("a") as writer:
            path.unlink()
            writer.write("two\n")
        running.read()
        running.pass_s(1)
        assert len(running.files) == 0
    assert logs.values == ["one", "two"]


def test_file_that_is_gone_before_it_was_read_is_counted_and_reported(logs: Logs) -> None:
    path = logs.write("a.log", "one\n")
    with logs.run(from_beginning=True) as running:
        running.read()
    path.unlink()
    with logs.run() as running:
        running.read()
        assert running.follower.lost()["gone"] == 1
    assert logs.problems == [f"{path} is gone: what was behind its byte 4 is not read"]


def test_truncated_file_is_read_from_its_beginning(logs: Logs) -> None:
    path = logs.write("a.log", numbered(20))
    with logs.run(from_beginning=True) as running:
        running.read()
        path.write_text(numbered(1, start=20))
        running.read()
        path.write_text(numbered(40, start=21))  # longer again before anybody looks
        running.read()
        assert running.files.counts["truncated"] == 2
    assert numbers(logs) == [*range(61)]


@pytest.mark.parametrize("copy", ["a.log.1", "a-1.log"], ids=["copy-behind", "copy-in-front"])
def test_copy_of_a_truncated_file_gives_only_the_lines_that_were_not_read(logs: Logs, copy: str) -> None:
    """logrotate with copytruncate, and a pattern that matches the copies too."""
    path = logs.write("a.log", numbered(20))
    with logs.run("*.log*", from_beginning=True) as running:
        running.read()
        (logs.folder / copy).write_text(path.read_text() + numbered(5, start=20))
        path.write_text(numbered(1, start=25))
        running.read()
    assert sorted(numbers(logs)) == [*range(26)]


def test_copy_waits_while_its_original_is_there(logs: Logs) -> None:
    path = logs.write("a.log", numbered(20))
    with logs.run("*.log*", from_beginning=True) as running:
        running.read()
        (logs.folder / "a.log.1").write_text(path.read_text())
        running.read()
        running.read()
        assert numbers(logs) == [*range(20)]
        path.write_text(numbered(1, start=20))
        running.read()
    assert numbers(logs) == [*range(21)]


def test_copy_that_was_made_while_the_edge_did_not_run_continues(logs: Logs) -> None:
    path = logs.write("a.log", numbered(20))
    with logs.run("*.log*", from_beginning=True) as running:
        running.read()
    (logs.folder / "a.log.1").write_text(path.read_text() + numbered(5, start=20))
    path.write_text(numbered(1, start=25))
    with logs.run("*.log*") as running:
        running.read()
    assert sorted(numbers(logs)) == [*range(26)]


def test_reused_inode_is_a_new_file(logs: Logs) -> None:
    """The same inode with other content, as after a file was deleted while the edge did not run."""
    path = logs.write("a.log", "one\n")
    with logs.run(from_beginning=True) as running:
        running.read()
    path.write_text("two\nmore\n")
    with logs.run() as running:
        running.read()
    assert logs.values == ["one", "two", "more"]


def test_partial_last_line_waits_for_its_end_or_for_its_time(logs: Logs) -> None:
    logs.write("a.log", "one\nha")
    with logs.run(from_beginning=True) as running:
        running.pass_s(1000)
        assert logs.values == ["one"]
        logs.write("a.log", "lf\nqua")
        running.read()
    with logs.run(partial_wait_s=5) as running:
        running.read()
        assert logs.values == ["one", "half"]
        running.pass_s(6)
        logs.write("a.log", "rter\n")
        running.read()
    assert logs.values == ["one", "half", "qua", "rter"]


def test_stack_trace_is_one_event_and_the_last_one_ends_after_its_time(logs: Logs) -> None:
    trace = "2026 error\n  at a\n  at b\n"
    logs.write("a.log", trace + "2026 fine\n")
    with logs.run(from_beginning=True, multiline_start="^2026", multiline_wait_s=5) as running:
        running.read()
        assert logs.values == [trace.rstrip()]
        running.pass_s(6)
        assert logs.values == [trace.rstrip(), "2026 fine"]
        logs.write("a.log", "2026 last")
        running.pass_s(10)
    assert logs.values == [trace.rstrip(), "2026 fine"]
    with logs.run(multiline_start="^2026", is_once=True) as running:
        running.follower.run(lambda: False)
    assert logs.values == [trace.rstrip(), "2026 fine", "2026 last"]


def test_bytes_that_are_not_utf8_arrive_as_they_are(logs: Logs) -> None:
    (logs.folder / "a.log").write_bytes(b"caf\xe9 \x00\xff\r\n")
    with logs.run(from_beginning=True) as running:
        running.read()
    messages = read_committed(Cluster(logs.bootstrap, timeout_s=30), logs.topic)
    assert [message.value() for message in messages] == [b"caf\xe9 \x00\xff"]


def test_line_that_is_too_long_is_cut_and_counted(logs: Logs) -> None:
    logs.write("a.log", "short\n" + "y" * 1_000_000 + "\nnext\n")
    with logs.run(from_beginning=True, line_bytes_max=10) as running:
        running.read()
        assert running.follower.lost()["too long"] == 1
    assert logs.values == ["short", "y" * 10, "next"]


def test_headers_have_the_file_and_the_offset_of_each_line(logs: Logs) -> None:
    path = logs.write("a.log", "one\ntwo\n")
    with logs.run(from_beginning=True) as running:
        running.read()
    assert [header["offset"] for header in logs.headers()] == [b"0", b"4"]
    identity = f"{path.stat().st_dev}-{path.stat().st_ino}".encode()
    assert {header["file.id"] for header in logs.headers()} == {identity}


def test_line_that_does_not_parse_is_a_dead_letter_with_its_place(logs: Logs) -> None:
    logs.write("a.log", '{"a": 1}\nnot json\n')
    with logs.run(from_beginning=True, parse=parser_of("json")) as running:
        running.read()
        assert running.follower.lost()["not parsed"] == 1
    assert logs.values == ['{"a": 1}']
    (letter,) = read_committed(Cluster(logs.bootstrap, timeout_s=30), f"dlq.{logs.topic}")
    headers = headers_of(letter)
    assert letter.value() == b"not json"
    assert headers["offset"] == b"9"
    assert headers["__dlq.errors.message"].startswith(b"not a JSON object")


def test_many_files_need_few_open_ones(logs: Logs) -> None:
    for number in range(500):
        logs.write(f"{number}.log", f"{number}\n")
    with logs.run(from_beginning=True, open_files_max=10) as running:
        running.read()
        assert running.files.open_files <= 10
        for number in range(500):
            logs.write(f"{number}.log", f"{number + 500}\n")
        running.read()
        assert len(running.files) == 500
    assert sorted(map(int, logs.values)) == [*range(1_000)]


def test_lines_in_front_of_the_stop_are_delivered(logs: Logs) -> None:
    path = logs.write("a.log", "before\n")
    with logs.run() as running:
        logs.write("a.log", "one\n")
        path.rename(logs.folder / "a.log.1")
        logs.write("a.log", "two\n")
        running.follower.run(lambda: True)
    assert sorted(logs.values) == ["one", "two"]


def test_once_ends_when_all_is_delivered_also_a_last_line_without_end(logs: Logs) -> None:
    logs.write("a.log", "one\ntwo")
    with logs.run(from_beginning=True, is_once=True) as running:
        running.follower.run(lambda: False)
        assert running.intake.count().delivered == 2
    assert logs.values == ["one", "two"]


def test_no_line_is_lost_or_doubled_while_a_writer_rotates(logs: Logs) -> None:
    count, wrote = 30_000, threading.Event()

    def write() -> None:
        for begin in range(0, count, 1000):
            path = logs.write("a.log", numbered(1000, start=begin))
            if begin % 3000 == 0:
                path.rename(logs.folder / f"a.log.{begin}")
        wrote.set()

    with logs.run("a.log*", from_beginning=True, rotate_wait_s=1000) as running:
        writer = threading.Thread(target=write)
        writer.start()
        while not wrote.is_set():
            running.step()
        writer.join()
        running.read()
        running.read()
    assert sorted(numbers(logs)) == [*range(count)]
