"""Spark's classes, loaded and checked once and kept as the JVM can map them: half the work of a session's start.

Java calls it class data sharing. An archive is good for one Java and one Spark at one place; another one is made anew,
and a JVM that finds an archive unfit ignores it. Where there is none a session starts all the same, only slower.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.java import cache_folder, java_command, last_lines

MAKE_TIMEOUT_S = 600
"""It takes some 20 s; a machine that does much else gets more, a hung one does not hang us for ever."""

JVM_EXIT_TIMEOUT_S = 300
"""Writing the archive is the last thing that the JVM does."""


class ArchiveNotMade(HeadraceError):
    """Spark's classes could not be prepared; jobs run without."""


def archive_path() -> Path:
    """Where the archive for this Java and this Spark is, or would be."""
    java = Path(java_command()).resolve()
    release = java.parent.parent / "release"
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    jars = Path(spec.origin).parent / "jars"
    parts = (
        str(java),
        release.read_text(errors="replace") if release.is_file() else "",
        str(jars),
        # Java takes an archive only for the very files that it was made from, not for the same Spark installed again.
        str(jars.stat().st_mtime_ns),
    )
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]
    return cache_folder() / "java" / f"spark-classes-{digest}.jsa"


def java_options() -> str:
    """What a JVM must be told to use the archive; nothing where there is none."""
    path = archive_path()
    # No spaces: Spark splits the options at them. Without an archive all is as it always was.
    return f"-XX:SharedArchiveFile={path}" if path.is_file() and " " not in str(path) else ""


def make_archive() -> Path:
    """The archive's file, made if this is the first time. It appears whole or not at all."""
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
    """In a process of its own: this one may have a JVM already, and its end is when the archive is written."""
    made = workplace / "classes.jsa"
    command = [sys.executable, "-m", "headrace.pipeline.spark.class_archive", str(made)]
    environment = {
        **os.environ,
        "HEADRACE_PIPELINE_DATA_DIR": str(workplace),
        "HEADRACE_PIPELINE_MASTER": "local[1]",
    }
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=MAKE_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as expired:
        raise ArchiveNotMade(f"Spark's classes were not ready after {MAKE_TIMEOUT_S} s") from expired
    if done.returncode != 0 or not made.is_file():
        raise ArchiveNotMade(
            f"Spark's classes could not be prepared:\n{last_lines(done.stdout + done.stderr)}",
            hint="jobs run without, and start a little slower",
        )
    made.rename(path)


def _load_classes(made: Path) -> None:
    """Start Spark and let it do a little of everything that jobs do, so that its classes are there to be kept."""
    from pyspark.sql import DataFrame, functions

    from headrace.pipeline import session

    spark = session("classes", conf={"spark.driver.extraJavaOptions": f"-XX:ArchiveClassesAtExit={made}"})
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
    # Nobody listens there; the classes of the client are loaded all the same.
    options = {
        "kafka.bootstrap.servers": "127.0.0.1:1",
        "subscribe": "none",
        "kafka.default.api.timeout.ms": "500",
    }
    with contextlib.suppress(Exception):
        spark.read.format("kafka").options(**options, **{"kafka.request.timeout.ms": "400"}).load().count()
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(JVM_EXIT_TIMEOUT_S)


if __name__ == "__main__":
    _load_classes(Path(sys.argv[1]))
