"""The kit that runs a real Apache Kafka: what it fetches, what it keeps, and what it says when something fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.java import fetch_jars
from headrace.testing.apache_kafka import KAFKA_4_3, ApacheKafka, KafkaDidNotStart
from headrace.testing.java import JavaTools
from headrace.testing.requirements import require_command, require_java
from tests.compatibility.topic_contents import read_to_end, write_values


@pytest.mark.parametrize(("in_ci", "outcome"), [("true", pytest.fail.Exception), ("", pytest.skip.Exception)])
def test_a_missing_command_fails_in_ci_and_skips_elsewhere(
    monkeypatch: pytest.MonkeyPatch, in_ci: str, outcome: type[BaseException]
) -> None:
    monkeypatch.setenv("CI", in_ci)

    with pytest.raises(outcome, match="apt-get install no-such-command"):
        require_command("no-such-command", install="apt-get install no-such-command")


def test_a_java_program_is_run_with_its_input_and_its_exit_code() -> None:
    require_java()
    tools = JavaTools(jars=fetch_jars(KAFKA_4_3))

    done = tools.run("kafka.tools.StorageTool", "random-uuid", timeout_s=60)
    assert (done.returncode, len(done.stdout.strip()), done.stderr) == (0, 22, "")
    assert tools.run("no.such.Class", timeout_s=60).returncode == 1


def test_kafka_keeps_its_data_over_a_restart_and_removes_it_at_the_end() -> None:
    require_java()
    with ApacheKafka(properties={"num.partitions": "2"}) as kafka:
        write_values(kafka.bootstrap, "kept", [b"one", b"two"])
        kafka.restart()
        assert sorted(m.value() for m in read_to_end(kafka.bootstrap, "kept")) == [b"one", b"two"]
        assert {path.name for path in kafka.data_dir.glob("kept-*")} == {"kept-0", "kept-1"}
        folder = kafka.folder

    assert not folder.exists()


def test_a_kafka_that_cannot_start_says_why(tmp_path: Path) -> None:
    require_java()
    for wrong in ({"num.io.threads": "-3"}, {"log.cleaner.threads": "many"}):
        with pytest.raises(KafkaDidNotStart, match=next(iter(wrong))):
            ApacheKafka(properties=wrong, folder=tmp_path).start()


def test_a_kafka_that_ends_while_starting_quotes_its_log(tmp_path: Path) -> None:
    require_java()
    with ApacheKafka(folder=tmp_path):
        pass
    (tmp_path / "data" / "meta.properties").write_text("version=1\nnode.id=7\n")

    with pytest.raises(KafkaDidNotStart, match="ended with code 1") as failed:
        ApacheKafka(folder=tmp_path).start()
    assert "meta.properties" in str(failed.value)
    assert str(tmp_path / "server.log") in failed.value.hint
