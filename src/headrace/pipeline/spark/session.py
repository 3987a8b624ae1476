"""The Spark session of a script: finds Java, downloads the connector, and sets what streams need.

The caller's `conf` overrides these settings.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shlex
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from headrace.errors import HeadraceError
from headrace.java import JarSet, fetch_jars, java_of_version, last_lines
from headrace.pipeline import launch
from headrace.pipeline.addresses import normal, scheme_of
from headrace.pipeline.folders.java_hadoop import S3A
from headrace.pipeline.settings import PipelineSettings, pipeline_settings, spark_properties
from headrace.pipeline.spark import class_archive
from headrace.pipeline.spark.home import create_home

JAVA_VERSION_MIN = 17
"""Spark 4's own."""

# The token provider is for Kerberos and has not changed in years; its 4.2.0 cannot be had everywhere, nor can that of
# Avro. The tests run what is here.
CONNECTOR = JarSet(
    name="spark-connector-4.2.0",
    dependencies=(
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
        "org.apache.spark:spark-avro_2.13:4.1.1",
    ),
    excludes=(
        "org.scala-lang",
        "org.slf4j",
        "org.apache.hadoop",
        "com.google.code.findbugs",
        "org.apache.spark:spark-tags_2.13",
    ),
    overrides=("org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",),
)

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
CHECKPOINT_FILES = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
LOCAL_FILES = "org.apache.hadoop.fs.LocalFileSystem"
BOOTSTRAP_KEY = "spark.headrace.bootstrap"
REGISTRY_KEY = "spark.headrace.registry"
DATA_DIR_KEY = "spark.headrace.data_dir"

S3A_OPTIONS = "spark.hadoop.fs.s3a."
SUBMIT_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"

LOG_BYTES_MAX = "10 MB"
LOG_FILES_MAX = 3
"""After a failure the last hours are needed, not the last year."""

COLLECTOR = "-XX:+UseParallelGC"
"""Records are much garbage that dies young: this one takes some 8 % less CPU time to parse JSON than Java's own."""

COMPILATION = "-XX:CompileThresholdScaling=4"
"""Java compiles a method after four times as many calls as by default. Compiling takes a third of the CPU time of the
first million records of a job, much of it for methods that plan batches, send tasks and poll Kafka: they run too rarely
to repay it. Methods that run for every record are called often enough."""

_CHOSEN_COLLECTOR = re.compile(r"-XX:\+Use\w+GC\b")
_JAVA_OPTIONS_VARIABLES = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")

SOCKET_PATIENCE_S = 120
"""How long Python and the JVM wait for each other to connect, when rows are collected. Spark's own 15 s are over on a
machine that is busy with something else, and the batch would fail."""

_LOGGERS_OF_ERRORS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""By these PySpark prints each error that it raises a second time, with the whole plan."""

_LOCAL_MASTER = re.compile(r"local(?:\[(?P<threads>\*|\d+)(?:,\d+)?\])?")
_LOCK = threading.Lock()


def session(
    name: str = "headrace",
    *,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    bootstrap: str | None = None,
    registry: str | None = None,
    data_dir: str | Path | None = None,
) -> SparkSession:
    """A Spark session for jobs; the existing one, if there is one.

        spark = session("shop")                                # local[*], a broker at 127.0.0.1:9092
        spark = session("shop", master="spark://head:7077", bootstrap="kafka-1:9092",
                        conf={"spark.executor.memory": "4g"})

    The first call of all fetches the Kafka connector, which takes some seconds; from then on no network is needed.
    Spark's log is in `<data_dir>/log/spark-<name>.log`. Every option of Spark may be given in `conf`.
    """
    settings = pipeline_settings(
        master=master,
        bootstrap=bootstrap,
        registry=registry,
        data_dir=None if data_dir is None else str(data_dir),
    )
    wanted = dict(conf or {})
    with _LOCK, _signal_handlers_kept():
        running = _running_session()
        if running is None:
            _start_context(name, settings, wanted)
        elif master is not None and running.conf.get("spark.master") != settings.master:
            raise HeadraceError(
                f"Spark is running already, on {running.conf.get('spark.master')} and not on {settings.master}",
                hint="a process has one Spark: stop() the existing session, or pass its master",
            )
        spark = running or SparkSession.builder.getOrCreate()
    _set_at_run_time(spark, settings, wanted if running is not None else {})
    for logger in _LOGGERS_OF_ERRORS:
        PySparkLogger.getLogger(logger).setLevel(logging.CRITICAL)
    return spark


def _running_session() -> SparkSession | None:
    """Of this thread, or else of any other; None after stop()."""
    running = SparkSession.getActiveSession() or SparkSession._instantiatedSession
    return running if running is not None and SparkContext._active_spark_context is not None else None


def bootstrap_of(spark: SparkSession, given: str | None = None) -> str:
    """The broker of a source or a sink. Options of the launch override its own argument."""
    return (
        launch.current().bootstrap
        or given
        or spark.conf.get(BOOTSTRAP_KEY, None)
        or pipeline_settings().bootstrap
    )


def registry_of(spark: SparkSession, given: str | None = None) -> str:
    """The schema registry of a source or a sink, by the same rules as the broker."""
    return (
        launch.current().registry
        or given
        or spark.conf.get(REGISTRY_KEY, None)
        or pipeline_settings().registry
    )


def data_address() -> str:
    """The data folder of this process, wherever it is. Options of the launch override those of the session."""
    spark = _running_session()
    of_session = None if spark is None else spark.conf.get(DATA_DIR_KEY, None)
    return normal(launch.current().data_dir or of_session or pipeline_settings().data_dir)


def data_dir() -> Path:
    """The data folder of this process, for files that can only be on this machine."""
    return pipeline_settings(data_dir=data_address()).local_data_dir


def connector_jars() -> str:
    """The value of `spark.jars` with which a session of your own reads topics. Fetched once, as by `session()`."""
    return ",".join(str(jar) for jar in sorted(fetch_jars(CONNECTOR).glob("*.jar")))


def log_file(data_dir: Path, name: str) -> Path:
    """Where Spark's log is. A file for each name: two processes may share the folder, not a file that is rotated."""
    return data_dir / "log" / f"spark-{re.sub(r'[^A-Za-z0-9_.-]', '_', name)}.log"


def spark_conf(name: str, settings: PipelineSettings) -> dict[str, str]:
    """What a session is started with, before the caller's own options."""
    conf = {
        "spark.app.name": name,
        "spark.master": settings.master,
        "spark.driver.memory": settings.driver_memory,
        "spark.driver.extraJavaOptions": settings.driver_java_options,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(settings.log_dir / "warehouse"),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # State that outgrows memory, and checkpoints that write what changed rather than everything.
        "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        # Spark's usual way to write a checkpoint's file starts several processes for it, as for `chmod`: a small batch
        # would spend half of its time on that. Both write a temporary file and rename it.
        # Hive, whose classes come with Spark, would otherwise provide the local files, and renames nothing to a file
        # that exists: the state of a batch that runs again would mix with that of its first run.
        "spark.sql.streaming.checkpointFileManagerClass": CHECKPOINT_FILES,
        "spark.hadoop.fs.file.impl": LOCAL_FILES,
        # The batches of a stream are alike: adaptive planning of each batch costs more than it gains.
        "spark.sql.adaptive.streaming.stateless.enabled": "false",
        "spark.python.authenticate.socketTimeout": f"{SOCKET_PATIENCE_S}s",
        # With TCP, the state server of a task takes the first connection to its port for its worker. That of a client
        # that retries an address of before ends the server, and the batch waits forever.
        "spark.python.unix.domain.socket.enabled": "true",
        BOOTSTRAP_KEY: settings.bootstrap,
        REGISTRY_KEY: settings.registry,
        DATA_DIR_KEY: normal(settings.data_dir),
    }
    cores = local_cores(settings.master)
    if cores is not None:
        # No other machine connects to it. And each shuffle partition of a batch costs a task: 200 would take seconds.
        conf["spark.driver.bindAddress"] = conf["spark.driver.host"] = "127.0.0.1"
        conf["spark.sql.shuffle.partitions"] = str(cores)
    return conf


def local_cores(master: str) -> int | None:
    """How many threads a local master has; None for a cluster."""
    local = _LOCAL_MASTER.fullmatch(master)
    if local is None:
        return None
    threads = local["threads"] or "1"
    return int(threads) if threads.isdecimal() else _cores_of_this_process()


def _cores_of_this_process() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _start_context(name: str, settings: PipelineSettings, wanted: Mapping[str, str]) -> None:
    """Start Spark's JVM and its context. Their output goes to the log."""
    java_of_version(JAVA_VERSION_MIN)
    properties = spark_properties(settings)
    jars = [fetch_jars(CONNECTOR)]
    if uses_s3(settings, {**properties, **wanted}):
        jars.append(fetch_jars(S3A))
    is_local = local_cores(settings.master) is not None
    if is_local or "PYSPARK_PYTHON" not in os.environ:
        # Without it the workers run whichever python3 comes first, and miss every package.
        os.environ["PYSPARK_PYTHON"] = wanted.get("spark.pyspark.python", sys.executable)
    log = log_file(settings.log_dir, name)
    log.parent.mkdir(parents=True, exist_ok=True)
    conf = SparkConf(loadDefaults=False)
    conf.setAll(list(_whole_conf(spark_conf(name, settings), wanted, jars, log).items()))
    has_pyspark = is_local and os.environ["PYSPARK_PYTHON"] == sys.executable
    with _home_of_spark() if has_pyspark else contextlib.nullcontext():
        gateway = _gateway(conf, log.with_suffix(".out"), settings.spark_properties)
    try:
        SparkContext(conf=conf, gateway=gateway)
    except Py4JError as error:
        raise HeadraceError(
            f"Spark did not start on {settings.master}: {_first_line(error)}",
            hint=f"check that the master is right and available; Spark's log is {log}",
        ) from error


@contextlib.contextmanager
def _home_of_spark() -> Iterator[None]:
    """Set SPARK_HOME, if it is not set."""
    if "SPARK_HOME" in os.environ:
        yield
        return
    os.environ["SPARK_HOME"] = str(create_home())
    try:
        yield
    finally:
        del os.environ["SPARK_HOME"]


def uses_s3(settings: PipelineSettings, conf: Mapping[str, str]) -> bool:
    """Whether Spark needs the classes of S3."""
    return scheme_of(settings.data_dir) == "s3a" or any(name.startswith(S3A_OPTIONS) for name in conf)


def _whole_conf(
    own: Mapping[str, str], wanted: Mapping[str, str], jars: Sequence[Path], log: Path
) -> dict[str, str]:
    """The caller's options override Headrace's, unless both can be combined."""
    given = " ".join(filter(None, (conf.get("spark.driver.extraJavaOptions") for conf in (own, wanted))))
    java_options = [
        f"-Dlog4j2.configurationFile={_write_log4j_properties(log).as_uri()}",
        class_archive.java_options(),
        COMPILATION,
        collector(given),
        given,
    ]
    return {
        **own,
        **wanted,
        "spark.jars": ",".join(
            filter(
                None,
                [
                    *(str(jar) for folder in jars for jar in sorted(folder.glob("*.jar"))),
                    wanted.get("spark.jars"),
                ],
            )
        ),
        "spark.driver.extraJavaOptions": " ".join(filter(None, java_options)),
    }


def collector(given: str) -> str:
    """The garbage collector, unless one was chosen: Java does not start with two."""
    chosen = " ".join([given, *(os.environ.get(name, "") for name in _JAVA_OPTIONS_VARIABLES)])
    return "" if _CHOSEN_COLLECTOR.search(chosen) else COLLECTOR


def _gateway(conf: SparkConf, output: Path, properties: Path | None) -> JavaGateway | None:
    """The JVM, with its output in a file; None if this process has one already, from an earlier session."""
    if SparkContext._gateway is not None:
        return None
    with output.open("w") as stream, _submit_arguments(properties):
        try:
            gateway: JavaGateway = launch_gateway(conf, popen_kwargs={"stdout": stream, "stderr": stream})
        except PySparkRuntimeError as error:
            raise HeadraceError(
                f"Spark's Java process ended before it was ready; its last output:\n{last_lines(output.read_text())}",
                hint=f"the whole output is in {output}",
            ) from error
    return gateway


@contextlib.contextmanager
def _submit_arguments(properties: Path | None) -> Iterator[None]:
    """Spark reads the file itself: its options may be secrets, and a command line is not."""
    if properties is None:
        yield
        return
    before = os.environ.get(SUBMIT_ARGUMENTS)
    file = shlex.quote(str(properties.absolute()))
    os.environ[SUBMIT_ARGUMENTS] = f"--properties-file {file} {before or 'pyspark-shell'}"
    try:
        yield
    finally:
        if before is None:
            del os.environ[SUBMIT_ARGUMENTS]
        else:
            os.environ[SUBMIT_ARGUMENTS] = before


def _first_line(error: Py4JError) -> str:
    cause = getattr(error, "java_exception", None)
    return str(cause.toString() if cause is not None else error).splitlines()[0]


def _write_log4j_properties(log: Path) -> Path:
    """Warnings and errors to a file that is rotated; nothing to the console."""
    properties = log.with_suffix(".log4j2.properties")
    lines = {
        "rootLogger.level": "warn",
        "rootLogger.appenderRef.file.ref": "file",
        "appender.file.type": "RollingFile",
        "appender.file.name": "file",
        "appender.file.fileName": str(log),
        "appender.file.filePattern": f"{log}.%i",
        "appender.file.layout.type": "PatternLayout",
        "appender.file.layout.pattern": "%d{yyyy-MM-dd'T'HH:mm:ss.SSSXXX}{UTC} %p %c{1}: %m%n%ex",
        "appender.file.policies.type": "SizeBasedTriggeringPolicy",
        "appender.file.policies.size": LOG_BYTES_MAX,
        "appender.file.strategy.type": "DefaultRolloverStrategy",
        "appender.file.strategy.max": str(LOG_FILES_MAX),
    }
    properties.write_text("".join(f"{key} = {value}\n" for key, value in lines.items()))
    return properties


def _set_at_run_time(spark: SparkSession, settings: PipelineSettings, wanted: Mapping[str, str]) -> None:
    """Set the broker and the data folder of this script in a session that exists already."""
    spark.conf.set(BOOTSTRAP_KEY, settings.bootstrap)
    spark.conf.set(REGISTRY_KEY, settings.registry)
    spark.conf.set(DATA_DIR_KEY, normal(settings.data_dir))
    for key, text in wanted.items():
        if spark.conf.isModifiable(key):
            spark.conf.set(key, text)
        elif spark.conf.get(key, None) != text:
            raise HeadraceError(
                f"{key} can no longer be set to {text!r}: Spark is running already",
                hint="stop() the existing session, or set it in the first call of session()",
            )


@contextlib.contextmanager
def _signal_handlers_kept() -> Iterator[None]:
    """A context installs its own handler for Ctrl-C, which cancels batches that should end normally."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if before is not None:  # None: it was not set by Python, and cannot be restored
            signal.signal(signal.SIGINT, before)
