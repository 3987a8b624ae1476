"""Java programs run with their arguments and input, and return their exit code."""

from __future__ import annotations

from pathlib import Path

from headrace.java import fetch_jars
from headrace.testing.apache_kafka import KAFKA_4_3
from headrace.testing.java import JavaTools
from headrace.testing.requirements import require_java


def test_program_runs_to_its_end_and_returns_its_exit_code() -> None:
    require_java()
    tools = JavaTools(jars=fetch_jars(KAFKA_4_3))

    done = tools.run("kafka.tools.StorageTool", "random-uuid", timeout_s=60)
    assert (done.returncode, len(done.stdout.strip()), done.stderr) == (0, 22, "")
    assert tools.run("no.such.Class", timeout_s=60).returncode == 1


def test_quick_start_and_heap_are_options_of_the_jvm(tmp_path: Path) -> None:
    require_java()
    quick = JavaTools(jars=tmp_path).command("Main", "a")
    assert {"-Xmx256m", "-XX:TieredStopAtLevel=1"} <= {*quick}
    assert quick[-4:] == ["-cp", f"{tmp_path}/*", "Main", "a"]

    server = JavaTools(jars=tmp_path, heap_mb=512, quick_start=False, jvm_options=("-server",)).command(
        "Main"
    )
    assert {"-Xmx512m", "-server"} <= {*server}
    assert "-XX:TieredStopAtLevel=1" not in server
