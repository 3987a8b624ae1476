"""The settings of jobs, with the reason for each bound.

defaults < the `[pipeline]` table of headrace.toml < HEADRACE_PIPELINE_<NAME> < arguments in the script < options of
`headrace job run`.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.kafka.settings import DEFAULT_REGISTRY
from headrace.pipeline import launch
from headrace.pipeline.addresses import is_remote, normal
from headrace.pipeline.errors import BadJob
from headrace.settings import load, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSettings:
    bootstrap: str = setting(
        "127.0.0.1:9092",
        doc="HOST:PORT of the broker (or several, with commas) that topics are read from and written to: Headrace's or "
        "Apache Kafka's.",
    )
    registry: str = setting(
        DEFAULT_REGISTRY,
        doc="Address of the schema registry (or several, with commas): that of `headrace gateway`, or another one with "
        "the API of Confluent's. For formats with a registry only.",
    )
    master: str = setting(
        "local[*]",
        doc="Where Spark runs: `local[*]` is inside this process with all its cores, `spark://HOST:PORT`, `yarn` and "
        "`k8s://…` are clusters.",
    )
    data_dir: str = setting(
        "data",
        doc="Folder of checkpoints, logs and embedded targets, or an address that Spark reaches, such as "
        "`hdfs://head:8020/headrace` or `s3a://bucket/headrace`. A cluster needs an address, or a folder that all of "
        "it mounts. With an address, Spark's log stays in `data` on this machine.",
    )
    spark_properties: Path | None = setting(
        None,
        doc="File with options of Spark, one `key value` in a line, as in `spark-defaults.conf`: for addresses and "
        "credentials of stores (`spark.hadoop.fs.s3a.endpoint`). Options in a script override it.",
    )
    driver_memory: str = setting(
        "2g",
        doc="Heap of Spark's driver, which does all the work of a local master. Spark's own 1g is short for batches of "
        "a million rows.",
    )
    driver_java_options: str = setting(
        "",
        doc="Further options for the Java process of Spark's driver. `-XX:TieredStopAtLevel=1` is for jobs that run "
        "for seconds: Java spends less time on compiling.",
    )
    rows_per_batch_max: int = setting(
        1_000_000,
        minimum=1,
        doc="Rows that one micro-batch reads from a source: bounds memory, and how much is replayed after a crash.",
    )
    restarts_max: int = setting(
        10,
        minimum=0,
        doc="A job that fails more often in a row, without a committed batch in between, is not restarted any more.",
    )
    restart_backoff_s: int = setting(
        1, minimum=0, doc="Pause before the first restart of a failed job; it doubles with each."
    )
    restart_backoff_s_max: int = setting(
        60, minimum=1, doc="Longest pause before a restart: a database is back within minutes, not hours."
    )

    @property
    def local_data_dir(self) -> Path:
        """For files that can only be on this machine."""
        if is_remote(self.data_dir):
            raise BadJob(
                f"{self.data_dir} (data_dir) is not a folder of this machine",
                hint="it can have the checkpoints of jobs; use --data-dir FOLDER, or set `at` of the sink",
            )
        return Path(normal(self.data_dir))

    @property
    def log_dir(self) -> Path:
        """Of Spark's own files on this machine."""
        return Path("data").absolute() if is_remote(self.data_dir) else self.local_data_dir


def spark_properties(settings: PipelineSettings) -> dict[str, str]:
    """The options in the file of the settings."""
    if settings.spark_properties is None:
        return {}
    try:
        lines = settings.spark_properties.read_text().splitlines()
    except OSError as error:
        raise BadJob(
            f"{settings.spark_properties} (spark_properties) cannot be read: {error.strerror}",
            hint="a text file with one option of Spark in a line: key value",
        ) from error
    pairs = (_PAIR.match(line.strip()) for line in lines if not line.lstrip().startswith(("#", "!")))
    return {pair[1]: pair[2] for pair in pairs if pair is not None}


_PAIR = re.compile(r"([^\s=:]+)\s*[\s=:]\s*(.*)")


def pipeline_settings(**arguments: Any) -> PipelineSettings:
    """The settings that apply here. An argument of None is not given."""
    launched = launch.current()
    options = {
        "bootstrap": launched.bootstrap,
        "registry": launched.registry,
        "master": launched.master,
        "data_dir": launched.data_dir,
    }
    given = {name: value for name, value in options.items() if value is not None}
    return load(PipelineSettings, section="pipeline", flags={**arguments, **given}, environ=_environment())


def _environment() -> dict[str, str]:
    """With the short variables that all commands take."""
    short = {
        f"HEADRACE_PIPELINE_{name}": text
        for name in ("BOOTSTRAP", "REGISTRY")
        if (text := os.environ.get(f"HEADRACE_{name}"))
    }
    return {**short, **os.environ}
