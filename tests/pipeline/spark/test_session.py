"""The session: its options, its errors, and the same job on a cluster."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, TimerValues

from headrace.errors import HeadraceError
from headrace.pipeline import launch, session
from headrace.pipeline.launch import Launch
from headrace.pipeline.settings import pipeline_settings
from headrace.pipeline.spark.session import (
    COLLECTOR,
    COMPILATION,
    ROCKSDB,
    SOCKET_PATIENCE_S,
    _whole_conf,
    bootstrap_of,
    collector,
    data_address,
    data_dir,
    local_cores,
    log_file,
    spark_conf,
    uses_s3,
)
from headrace.testing.requirements import require_java
from headrace.testing.spark_cluster import SparkCluster
from tests.compatibility.topic_contents import read_committed
from tests.pipeline.conftest import CreateTopic

CLUSTER_TIMEOUT_S = 500
JOB = Path(__file__).with_name("job_on_cluster.py")


@pytest.mark.parametrize(
    ("master", "cores"),
    [("local", 1), ("local[3]", 3), ("local[2,4]", 2), ("spark://head:7077", None), ("yarn", None)],
)
def test_only_a_local_master_has_a_number_of_cores_here(master: str, cores: int | None) -> None:
    assert local_cores(master) == cores
    conf = spark_conf("x", pipeline_settings(master=master))
    assert conf.get("spark.sql.shuffle.partitions") == (None if cores is None else str(cores))


def test_garbage_collector_of_the_caller_is_the_only_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS"):
        monkeypatch.delenv(variable, raising=False)
    assert collector("-Xss4m") == COLLECTOR
    assert collector("-Xss4m -XX:+UseZGC") == ""
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:+UseG1GC -Xss4m")
    assert collector("-Xss4m") == ""


def test_options_of_java_come_from_the_settings_and_from_the_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_PIPELINE_DRIVER_JAVA_OPTIONS", "-Xss4m -XX:+UseZGC")
    own = spark_conf("x", pipeline_settings())
    whole = _whole_conf(own, {"spark.driver.extraJavaOptions": "-Dx=1"}, [tmp_path], tmp_path / "x.log")
    options = whole["spark.driver.extraJavaOptions"].split()
    assert options[-3:] == ["-Xss4m", "-XX:+UseZGC", "-Dx=1"]
    assert COLLECTOR not in options


def test_java_compiles_later_unless_the_caller_sets_another_scale(tmp_path: Path) -> None:
    chosen = "-XX:CompileThresholdScaling=1"
    for wanted in ({}, {"spark.driver.extraJavaOptions": chosen}):
        whole = _whole_conf(spark_conf("x", pipeline_settings()), wanted, [tmp_path], tmp_path / "x.log")
        options = whole["spark.driver.extraJavaOptions"].split()
        assert options.index(COMPILATION) >= 0
        assert not wanted or options.index(chosen) > options.index(COMPILATION)  # Java takes the last


def test_data_folder_of_the_launch_is_used_first(tmp_path: Path) -> None:
    with launch.using(Launch(data_dir=tmp_path / "other")):
        assert data_dir() == tmp_path / "other"


def test_target_on_this_machine_is_rejected_if_the_data_folder_is_not(tmp_path: Path) -> None:
    with launch.using(Launch(data_dir="s3a://bucket/jobs")):
        assert data_address() == "s3a://bucket/jobs"
        with pytest.raises(HeadraceError, match="s3a://bucket/jobs") as rejected:
            data_dir()
    assert "set `at` of the sink" in rejected.value.hint


def test_classes_of_s3_are_fetched_only_if_they_are_used(tmp_path: Path) -> None:
    settings = pipeline_settings(data_dir=tmp_path)
    assert not uses_s3(settings, {"spark.hadoop.fs.gs.project.id": "x"})
    assert uses_s3(settings, {"spark.hadoop.fs.s3a.endpoint": "https://s3.example"})
    assert uses_s3(pipeline_settings(data_dir="s3a://bucket/jobs"), {})


def test_second_call_returns_the_existing_session(spark: SparkSession, bootstrap: str) -> None:
    folder = data_dir()
    try:
        again = session(
            "again", bootstrap="elsewhere:1", data_dir="elsewhere", conf={"spark.sql.shuffle.partitions": "3"}
        )
        assert again.sparkContext is spark.sparkContext
        assert bootstrap_of(again) == "elsewhere:1"
        assert bootstrap_of(again, "given:1") == "given:1"
        assert data_dir() == Path("elsewhere").absolute()
        assert again.conf.get("spark.sql.shuffle.partitions") == "3"
    finally:
        session(bootstrap=bootstrap, data_dir=folder, conf={"spark.sql.shuffle.partitions": "2"})


def test_python_has_the_same_socket_timeout_as_the_jvm(spark: SparkSession) -> None:
    assert os.environ["SPARK_AUTH_SOCKET_TIMEOUT"] == str(SOCKET_PATIENCE_S)


class _SocketFamily(StatefulProcessor):
    """Emits how the worker is connected to the state server of its task."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._socket = handle._statefulProcessorApiClient._client_socket

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:
        yield Row(family=self._socket.family.name)

    def close(self) -> None:
        pass


def test_no_other_client_can_connect_to_the_state_server_of_a_task(spark: SparkSession) -> None:
    spark.streams.resetTerminated()  # The first use of streams creates what state needs, also on bounded rows.
    rows = spark.range(1).groupBy("id").transformWithState(_SocketFamily(), "family string", "append", "none")
    assert [row.family for row in rows.collect()] == ["AF_UNIX"]


def test_option_that_a_running_session_cannot_change_is_rejected(spark: SparkSession) -> None:
    with pytest.raises(HeadraceError, match=r"on local\[2\] and not on spark://head:7077"):
        session(master="spark://head:7077")
    with pytest.raises(HeadraceError, match=r"driver\.memory can no longer be set to '7g'"):
        session(conf={"spark.driver.memory": "7g"}, bootstrap=bootstrap_of(spark), data_dir=data_dir())


def test_streams_keep_state_in_rocksdb_and_times_are_utc(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.streaming.stateStore.providerClass") == ROCKSDB
    assert spark.conf.get("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled") == "true"
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


def test_file_of_a_checkpoint_is_replaced_when_its_batch_runs_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    jvm: Any = spark.sparkContext._jvm
    path = jvm.org.apache.hadoop.fs.Path((tmp_path / "1.changelog").as_uri())
    hadoop: Any = spark._jsparkSession.sessionState().newHadoopConf()
    checkpointing = jvm.org.apache.spark.sql.execution.streaming.checkpointing
    files = checkpointing.CheckpointFileManager.create(path.getParent(), hadoop)

    for content in (b"first run", b"second run"):
        stream = files.createAtomic(path, True)
        stream.write(content)
        stream.close()

    assert (tmp_path / "1.changelog").read_bytes() == b"second run"


def test_jvm_of_spark_has_the_garbage_collector_of_headrace(spark: SparkSession) -> None:
    jvm: Any = spark.sparkContext._jvm
    collectors = jvm.java.lang.management.ManagementFactory.getGarbageCollectorMXBeans()
    assert [each.getName() for each in collectors] == ["PS MarkSweep", "PS Scavenge"]


def test_session_keeps_the_signal_handlers_of_the_program(spark: SparkSession) -> None:
    handler = signal.getsignal(signal.SIGINT)
    assert handler is signal.default_int_handler


def test_log_of_spark_is_a_file_with_its_warnings(spark: SparkSession) -> None:
    spark._jvm.org.apache.logging.log4j.LogManager.getLogger("test").warn("it is written down")  # type: ignore[union-attr]

    assert "WARN test: it is written down" in log_file(data_dir(), "tests").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ('master="local[many]"', "Spark did not start on local[many]: "),
        ('conf={"spark.driver.memory": "1 potato"}', "Spark's Java process ended before it was ready"),
    ],
)
def test_error_of_a_session_that_does_not_start_has_the_cause_and_the_log(
    tmp_path: Path, arguments: str, message: str
) -> None:
    program = f"from headrace.pipeline import session\nsession(data_dir={str(tmp_path)!r}, {arguments})"

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    last = done.stderr[done.stderr.rindex("HeadraceError") :]
    assert done.returncode == 1
    assert message in last
    assert str(tmp_path / "log") in last


@pytest.mark.slow
@pytest.mark.timeout(CLUSTER_TIMEOUT_S)
def test_the_same_job_runs_on_a_cluster_of_two_workers(
    bootstrap: str, create_topic: CreateTopic, send: Callable[..., None], tmp_path: Path
) -> None:
    require_java()
    source, target = create_topic(suffix=".in", partitions=2), create_topic(suffix=".out")
    for partition in (0, 1):
        send(source, *({"user": f"u{number}", "visits": number} for number in range(4)), partition=partition)

    with SparkCluster(workers=2) as cluster:
        done = subprocess.run(
            [sys.executable, JOB, cluster.master, bootstrap, source, target, tmp_path],
            capture_output=True,
            text=True,
            timeout=CLUSTER_TIMEOUT_S,
            check=False,
        )

    assert done.returncode == 0, done.stdout + done.stderr
    workers = {Path(line).relative_to(cluster.folder).parts[0] for line in done.stdout.split()}
    assert workers == {"worker-0", "worker-1"}
    written = read_committed(bootstrap, target)
    assert sorted(json.loads(message.value())["visits"] for message in written) == [2, 2, 3, 3]
    # Spark prints nothing.
    assert done.stderr == ""
