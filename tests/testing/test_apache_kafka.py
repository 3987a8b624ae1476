"""A real Apache Kafka: it keeps its data over a restart, and an error has the end of its log."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.testing.apache_kafka import ApacheKafka
from headrace.testing.requirements import require_java
from headrace.testing.server_process import ServerUnavailable
from tests.compatibility.topic_contents import read_to_end, write_values


def test_data_survives_a_restart_and_is_deleted_at_the_end() -> None:
    require_java()
    with ApacheKafka(properties={"num.partitions": "2"}) as kafka:
        write_values(kafka.bootstrap, "kept", [b"one", b"two"])
        kafka.restart()
        assert sorted(m.value() for m in read_to_end(kafka.bootstrap, "kept")) == [b"one", b"two"]
        assert {path.name for path in kafka.data_dir.glob("kept-*")} == {"kept-0", "kept-1"}
        folder = kafka.folder

    assert not folder.exists()


def test_invalid_property_is_named_in_the_error(tmp_path: Path) -> None:
    require_java()
    for wrong in ({"num.io.threads": "-3"}, {"log.cleaner.threads": "many"}):
        with pytest.raises(ServerUnavailable, match=next(iter(wrong))):
            ApacheKafka(properties=wrong, folder=tmp_path).start()


def test_error_of_a_node_that_ends_during_its_start_has_its_log(tmp_path: Path) -> None:
    require_java()
    with ApacheKafka(folder=tmp_path):
        pass
    (tmp_path / "data" / "meta.properties").write_text("version=1\nnode.id=7\n")

    with pytest.raises(ServerUnavailable, match="ended with code 1") as failed:
        ApacheKafka(folder=tmp_path).start()
    assert "meta.properties" in str(failed.value)
    assert str(tmp_path / "server.log") in failed.value.hint
