"""Creates the archive of Spark's classes (`class_archive`): `headrace job prepare` runs it once."""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.java import last_lines
from headrace.pipeline.spark.class_archive import archive_path

CREATE_TIMEOUT_S = 600
"""It takes some 20 s. A busy machine gets more time, and a hung process ends."""

JVM_EXIT_TIMEOUT_S = 300
"""The JVM writes the archive when it exits."""


def create_archive() -> Path:
    """The path of the archive, which is created if it does not exist. The file appears atomically."""
    path = archive_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.is_file():
            print("preparing Spark's classes for quick starts, once ...", file=sys.stderr, flush=True)
            with tempfile.TemporaryDirectory(dir=path.parent, prefix=".spark-classes-") as workplace:
                _make(Path(workplace), path)
    return path


def _make(workplace: Path, path: Path) -> None:
    """Run in a new process: this one may have a JVM already, and a JVM writes the archive when it exits."""
    archive = workplace / "classes.jsa"
    command = [sys.executable, "-m", "headrace.pipeline.spark.prepare", str(archive)]
    environment = {
        **os.environ,
        "HEADRACE_PIPELINE_DATA_DIR": str(workplace),
        "HEADRACE_PIPELINE_MASTER": "local[1]",
    }
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=CREATE_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as expired:
        raise HeadraceError(f"Spark's classes were not ready after {CREATE_TIMEOUT_S} s") from expired
    if done.returncode != 0 or not archive.is_file():
        raise HeadraceError(
            f"Spark's classes could not be prepared:\n{last_lines(done.stdout + done.stderr)}",
            hint="jobs run without, and start a little slower",
        )
    archive.rename(path)


def _load_classes(archive: Path) -> None:
    """Start Spark and run a little of everything that jobs do, so that the JVM loads the classes."""
    from pyspark.sql import DataFrame, functions

    from headrace.pipeline.spark.session import session

    options = {"spark.driver.extraJavaOptions": f"-XX:ArchiveClassesAtExit={archive}"}
    spark = session("classes", conf=options)
    gateway = spark.sparkContext._gateway
    assert gateway is not None

    def take(batch: DataFrame, _number: int) -> None:
        batch.toArrow()

    rate = (
        spark.readStream.format("rate")
        .option("rowsPerSecond", 10)
        .load()
        .withWatermark("timestamp", "1 second")
    )
    parsed = functions.from_json(functions.to_json(functions.struct("value")), "value BIGINT")
    rows = rate.select("timestamp", parsed.alias("parsed")).where("parsed.value >= 0")
    counts = rows.groupBy(functions.window("timestamp", "1 second"), "parsed.value").count()
    query = counts.writeStream.outputMode("update").foreachBatch(take).start()
    while len(query.recentProgress) < 3:
        query.awaitTermination(1)
    query.stop()
    # No broker listens there; the JVM loads the client's classes all the same.
    options = {
        "kafka.bootstrap.servers": "127.0.0.1:1",
        "subscribe": "none",
        "kafka.default.api.timeout.ms": "500",
        "kafka.request.timeout.ms": "400",
    }
    with contextlib.suppress(Exception):
        spark.read.format("kafka").options(**options).load().count()
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(JVM_EXIT_TIMEOUT_S)


if __name__ == "__main__":
    _load_classes(Path(sys.argv[1]))
