"""The rows of a view as a DataFrame: from its topics and its SQL, or from a function of a script."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.views.definition import Definition
from headrace.views.errors import BadView

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.kafka.cluster import Cluster


def view_rows(definition: Definition, spark: SparkSession, cluster: Cluster) -> DataFrame:
    """A stream of changes: `op` says whether a row replaces the row of its key, or deletes it."""
    if definition.script:
        return _of_script(definition, spark)
    from headrace.views.sql import rows_of

    return rows_of(definition, spark, cluster)


def with_columns(definition: Definition, cluster: Cluster) -> tuple[Definition, Sequence[str]]:
    """The definition of a new version, with the columns that its topics have now, and notes on how they were found and
    on what the view shows. Raises unless the topics exist and the SQL fits them. Needs no Spark."""
    if definition.script:
        return definition, ()
    from headrace.views.sql import parse
    from headrace.views.topic_columns import columns_of, recorded, unrecorded

    given = unrecorded(definition)
    columns = columns_of(given, cluster)
    return recorded(given, columns), parse(given, columns).notes


def script_place(text: str) -> tuple[Path, str]:
    """The file and the function of FILE.py:FUNCTION."""
    file, separator, function = text.rpartition(":")
    if not separator or not function.isidentifier():
        raise BadView(f"{text!r} does not name a function", hint="--script FILE.py:FUNCTION")
    if not Path(file).is_file():
        raise BadView(f"there is no file {file}", hint="--script FILE.py:FUNCTION")
    return Path(file).absolute(), function


def _of_script(definition: Definition, spark: SparkSession) -> DataFrame:
    from pyspark.sql import DataFrame

    path, name = script_place(definition.script)
    before = list(sys.path)
    sys.path.insert(0, str(path.parent))
    try:
        names = runpy.run_path(str(path), run_name=path.stem)
        function = names.get(name)
        if not callable(function):
            raise BadView(f"{path} has no function {name}", hint=f"def {name}(spark): … return rows")
        rows = function(spark)
    finally:
        sys.path[:] = before
    if not isinstance(rows, DataFrame) or not rows.isStreaming:
        raise BadView(
            f"{name} of {path} returns no stream of rows",
            hint="read_topic(spark, …) is one; do not start a job",
        )
    return rows
