"""`headrace edge files` in front of a real broker, killed and restarted."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

from headrace.testing.ports import free_port
from tests.cli.conftest import Headrace, started
from tests.cli.edge.conftest import page, ready, stop
from tests.cli.typed_json import json_problems
from tests.edges.conftest import values_in, wait_until
from tests.faults.broker_process import BrokerProcess

LINE = '203.0.113.9 - - [18/Nov/2026:08:46:04 +0000] "GET /{} HTTP/1.1" 200 512 "-" "curl/8.0"\n'


def test_web_server_log_is_followed_through_a_rotation_and_the_report_counts_it(
    environment: dict[str, str], bootstrap: str, topic: str, tmp_path: Path
) -> None:
    log = tmp_path / "access.log"
    log.write_text("before the first start\n")
    arguments = [f"{tmp_path}/*.log", "--topic", topic, "--data-dir", str(tmp_path / "data")]
    options = ["--parse", "combined", "--metrics-port", "0", "--format", "json"]
    with started("edge", "files", *arguments, *options, environment=environment) as process:
        (metrics,) = ready(process)
        with log.open("a") as file:
            file.write(LINE.format("one"))
            file.flush()
            wait_until(lambda: len(values_in(bootstrap, topic)) == 1)
            log.rename(tmp_path / "access.log.1")
            file.write(LINE.format("two"))
        log.write_text(LINE.format("three") + "garbage\n")
        wait_until(lambda: len(values_in(bootstrap, topic)) == 3)
        wait_until(lambda: len(values_in(bootstrap, f"dlq.{topic}")) == 1)
        found = page(metrics)
        out = stop(process)

    assert f'headrace_edge_lost_total{{edge="files-{topic}",place="not parsed"}} 1.0' in found
    assert json_problems("edge files", out) == []
    report = json.loads(out)
    assert (report["lines"], report["not_parsed"], report["rotated"]) == (4, 1, 1)
    assert report["events"]["delivered"] == 4
    events = [json.loads(value) for value in values_in(bootstrap, topic)]
    assert sorted(event["path"] for event in events) == ["/one", "/three", "/two"]
    assert {event["time"] for event in events} == {"2026-11-18T08:46:04Z"}


def test_no_line_is_lost_by_kills_of_the_edge(
    environment: dict[str, str], bootstrap: str, topic: str, tmp_path: Path
) -> None:
    """At-least-once: lines that were read after the last written position come again, with the same offset."""
    log, count = tmp_path / "a.log", 0
    log.touch()
    arguments = [str(log), "--topic", topic, "--data-dir", str(tmp_path / "data"), "--from-beginning"]
    for _ in range(3):
        with started("edge", "files", *arguments, environment=environment) as process:
            ready(process)
            known = len(values_in(bootstrap, topic))
            with log.open("a") as file:
                file.writelines(f"{number}\n" for number in range(count, count + 20_000))
            count += 20_000
            wait_until(lambda: len(values_in(bootstrap, topic)) > known)  # noqa: B023
            os.kill(process.pid, signal.SIGKILL)
    with started("edge", "files", *arguments, "--once", environment=environment) as process:
        process.communicate(timeout=60)
        assert process.returncode == 0

    numbers = [int(value) for value in values_in(bootstrap, topic)]
    assert [*dict.fromkeys(numbers)] == [*range(count)]


def test_no_line_is_lost_by_kills_of_the_broker(tmp_path: Path) -> None:
    log, count = tmp_path / "a.log", 30_000
    log.touch()
    broker = BrokerProcess(tmp_path / "broker", port=free_port(), default_partitions=1)
    environment = {**os.environ, "HEADRACE_BOOTSTRAP": broker.bootstrap}
    arguments = [str(log), "--topic", "lines", "--data-dir", str(tmp_path / "data"), "--from-beginning"]
    with broker:
        with started("edge", "files", *arguments, environment=environment) as process:
            ready(process)
            for begin in range(0, count, 10_000):
                with log.open("a") as file:
                    file.writelines(f"{number}\n" for number in range(begin, begin + 10_000))
                known = begin
                wait_until(lambda: len(values_in(broker.bootstrap, "lines")) > known)  # noqa: B023
                broker.kill()
                broker.start()
            wait_until(lambda: len(values_in(broker.bootstrap, "lines")) >= count)
            stop(process)
        assert [int(value) for value in values_in(broker.bootstrap, "lines")] == [*range(count)]


def test_second_edge_of_the_same_name_is_rejected(
    environment: dict[str, str], headrace: Headrace, topic: str, tmp_path: Path
) -> None:
    arguments = ["edge", "files", f"{tmp_path}/*.log", "--topic", topic, "--data-dir", str(tmp_path)]
    with started(*arguments, environment=environment) as process:
        ready(process)
        assert "used by another process" in headrace(*arguments, code=1).err
        stop(process)


def test_wrong_use_is_an_error_with_the_remedy(headrace: Headrace, topic: str, tmp_path: Path) -> None:
    arguments = ["edge", "files", "*.log", "-t", topic, "--data-dir", str(tmp_path)]
    assert "syntax of RE2" in headrace(*arguments, "--multiline-start", "(", code=1).err
    assert "needs --regex" in headrace(*arguments, "--parse", "regex", code=1).err
    assert "--regex is for" in headrace(*arguments, "--regex", "(?P<a>.)", code=2).err
    assert "shorter than" in headrace(*arguments, "--poll", "1ms", code=2).err
