"""A home of Spark (`SPARK_HOME`) whose workers import the installed PySpark, and not its zipped copy.

Spark puts `python/lib/pyspark.zip` of its home first in the path of every Python process that it starts. Python
compiles modules of a zip file anew in each process, which takes half a second, also at each start of a stateful query.
In this home there is no such file.
"""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path

from headrace.java import cache_folder

_LINKED = ("bin", "jars", "sbin")


def home_path() -> Path:
    """The path of the home for the installed PySpark, whether it exists or not."""
    digest = hashlib.sha256(str(installed_pyspark()).encode()).hexdigest()[:12]
    return cache_folder() / "java" / f"spark-home-{digest}"


def create_home() -> Path:
    """The home, which is created if it does not exist."""
    home = home_path()
    home.mkdir(parents=True, exist_ok=True)
    for name in _LINKED:
        try:
            (home / name).symlink_to(installed_pyspark() / name)
        except FileExistsError:
            continue
    return home


def installed_pyspark() -> Path:
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent
