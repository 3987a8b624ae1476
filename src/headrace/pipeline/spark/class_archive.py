"""The archive of Spark's loaded and verified classes, which saves half the work of a session's start.

Java calls it class data sharing. An archive fits one Java and one installation of Spark; a JVM ignores an archive that
does not fit. Without an archive a session starts more slowly. `prepare` creates the archive.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from headrace.java import cache_folder, java_command
from headrace.pipeline.spark.home import home_path, installed_pyspark


def archive_path() -> Path:
    """The path of the archive for this Java and this Spark, whether it exists or not."""
    java = Path(java_command()).resolve()
    release = java.parent.parent / "release"
    jars = installed_pyspark() / "jars"
    parts = (
        str(java),
        release.read_text(errors="replace") if release.is_file() else "",
        str(home_path()),
        str(jars),
        # Java accepts an archive only for the very files that it was created from, not for the same Spark installed
        # again.
        str(jars.stat().st_mtime_ns),
    )
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]
    return cache_folder() / "java" / f"spark-classes-{digest}.jsa"


def java_options() -> str:
    """The JVM options that use the archive; empty if there is no archive."""
    path = archive_path()
    # Spark splits the options at spaces.
    return f"-XX:SharedArchiveFile={path}" if path.is_file() and " " not in str(path) else ""
