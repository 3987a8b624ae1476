"""Java programs for tests: fetching their jars once, into a cache of Headrace's own, and running them.

The jars come by Apache Ivy, whose own jar is part of pyspark, so neither Maven nor a list of download
addresses is needed. What the jars do is not known here.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from xml.etree import ElementTree

from headrace.errors import HeadraceError

FETCH_TIMEOUT_S = 900
"""A cold fetch of a hundred jars takes a minute; a slow line gets more, a dead one does not hang for ever."""

HEAP_MB = 256
"""Enough for every command-line tool of Kafka, and little enough to run several beside a broker."""

OUTPUT_LINES_QUOTED = 25
"""How much of a failed program's output an error message repeats: the cause, not the whole story."""


class JavaUnavailable(HeadraceError):
    """Java, or the jars that were to run in it, cannot be had on this machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JarSet:
    """Jars that are fetched together, with everything they need.

    Coordinates are written `organisation:module:revision`. An exclude is `organisation` or
    `organisation:module`. An override replaces the revision that a dependency of a dependency asks for.
    """

    name: str
    dependencies: tuple[str, ...]
    excludes: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()

    def ivy_xml(self) -> str:
        """The set in Ivy's own language. Ivy wants the excludes before the overrides."""
        module = ElementTree.Element("ivy-module", version="2.0")
        ElementTree.SubElement(module, "info", organisation="headrace", module=self.name)
        configurations = ElementTree.SubElement(module, "configurations")
        ElementTree.SubElement(configurations, "conf", name="default")
        dependencies = ElementTree.SubElement(module, "dependencies")
        for coordinate in self.dependencies:
            organisation, name, revision = _coordinate(coordinate)
            ElementTree.SubElement(
                dependencies,
                "dependency",
                {"org": organisation, "name": name, "rev": revision, "conf": "default->default"},
            )
        for exclude in self.excludes:
            organisation, _, name = exclude.partition(":")
            attributes = {"org": organisation, "module": name} if name else {"org": organisation}
            ElementTree.SubElement(dependencies, "exclude", attributes)
        for coordinate in self.overrides:
            organisation, name, revision = _coordinate(coordinate)
            ElementTree.SubElement(
                dependencies, "override", {"org": organisation, "module": name, "rev": revision}
            )
        ElementTree.indent(module)
        return ElementTree.tostring(module, encoding="unicode") + "\n"

    def folder_name(self) -> str:
        """The name and a digest of the contents, so that a changed set is never taken for the old one."""
        return f"{self.name}-{hashlib.sha256(self.ivy_xml().encode()).hexdigest()[:8]}"


def _coordinate(text: str) -> tuple[str, str, str]:
    parts = text.split(":")
    if len(parts) != 3 or not all(parts):
        raise ValueError(f"not a coordinate of the form organisation:module:revision: {text!r}")
    return parts[0], parts[1], parts[2]


def cache_folder() -> Path:
    """`$HEADRACE_CACHE`, or `~/.cache/headrace`."""
    configured = os.environ.get("HEADRACE_CACHE")
    return Path(configured) if configured else Path.home() / ".cache" / "headrace"


def java_command() -> str:
    """The `java` of `$JAVA_HOME`, or else of the search path."""
    java_home = os.environ.get("JAVA_HOME")
    if java_home and (Path(java_home) / "bin" / "java").is_file():
        return str(Path(java_home) / "bin" / "java")
    found = shutil.which("java")
    if found is None:
        raise JavaUnavailable(
            "there is no Java here",
            hint="install a runtime, version 17 or newer (Debian: apt-get install openjdk-17-jre-headless)",
        )
    return found


def fetch_jars(jar_set: JarSet) -> Path:
    """The folder with the jars of `jar_set`, fetched if this is the first time.

    The folder appears whole or not at all, and two processes that want the same set at once fetch it once.
    """
    java_folder = cache_folder() / "java"
    jars = java_folder / jar_set.folder_name()
    if jars.is_dir():
        return jars
    java = java_command()
    ivy_jar = _ivy_jar()
    java_folder.mkdir(parents=True, exist_ok=True)
    with _locked(java_folder / f"{jar_set.folder_name()}.lock"):
        if not jars.is_dir():
            print(f"fetching the jars of {jar_set.name}, once, into {jars} ...", file=sys.stderr, flush=True)
            with tempfile.TemporaryDirectory(dir=java_folder, prefix=f".{jar_set.name}-") as workplace:
                _retrieve(java, ivy_jar, jar_set, Path(workplace)).rename(jars)
            print(f"fetched {len(list(jars.iterdir()))} jars", file=sys.stderr, flush=True)
    return jars


def _retrieve(java: str, ivy_jar: Path, jar_set: JarSet, workplace: Path) -> Path:
    """Let Ivy work inside `workplace`, its own cache included: nothing of the user's is read or written."""
    description = workplace / "ivy.xml"
    description.write_text(jar_set.ivy_xml())
    jars = workplace / "jars"
    command = [java, f"-Divy.default.ivy.user.dir={workplace / 'ivy'}", "-jar", str(ivy_jar)]
    settings = os.environ.get("HEADRACE_IVY_SETTINGS")
    if settings:
        command += ["-settings", settings]
    command += ["-ivy", str(description), "-retrieve", f"{jars}/[artifact]-[revision].[ext]"]
    command += ["-types", "jar", "bundle"]
    try:
        ivy = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as expired:
        raise JavaUnavailable(
            f"fetching the jars of {jar_set.name} took longer than {FETCH_TIMEOUT_S} s",
            hint="check the network, and try again",
        ) from expired
    if ivy.returncode != 0 or not any(jars.glob("*.jar")):
        raise JavaUnavailable(
            f"the jars of {jar_set.name} could not be fetched:\n{last_lines(ivy.stdout + ivy.stderr)}",
            hint="check the network; behind a mirror, name your ivysettings.xml in HEADRACE_IVY_SETTINGS",
        )
    return jars


def _ivy_jar() -> Path:
    """Ivy out of the installed pyspark, which is found but not imported: that would be slow, for nothing."""
    spec = importlib.util.find_spec("pyspark")
    places = (spec.submodule_search_locations or []) if spec else []
    for place in places:
        for jar in sorted(Path(place).glob("jars/ivy-*.jar")):
            return jar
    raise JavaUnavailable(
        "the jars cannot be fetched: Apache Ivy, which comes with pyspark, is not here",
        hint="pip install pyspark==4.2.0",
    )


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def last_lines(text: str) -> str:
    return "\n".join(text.rstrip().splitlines()[-OUTPUT_LINES_QUOTED:])


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaTools:
    """The main classes of a folder of jars, each run in a Java process of its own.

    `quick_start` trades peak speed for a quicker start, which is right for a tool that lives for a second and
    wrong for a benchmark. `log_level` is what the programs' own logging lets through to stderr.
    """

    jars: Path
    heap_mb: int = HEAP_MB
    quick_start: bool = True
    log_level: str = "warn"
    jvm_options: tuple[str, ...] = ()

    def command(self, main_class: str, *arguments: str) -> list[str]:
        options = [f"-Xmx{self.heap_mb}m", "-Djava.awt.headless=true"]
        if self.quick_start:
            options += ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        options.append(f"-Dorg.slf4j.simpleLogger.defaultLogLevel={self.log_level}")
        return [java_command(), *options, *self.jvm_options, "-cp", f"{self.jars}/*", main_class, *arguments]

    def run(
        self, main_class: str, *arguments: str, timeout_s: float, input: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run to the end. What the exit code means is the caller's business."""
        command = self.command(main_class, *arguments)
        stdin = subprocess.DEVNULL if input is None else None
        return subprocess.run(
            command, input=input, stdin=stdin, capture_output=True, text=True, timeout=timeout_s, check=False
        )

    def start(
        self,
        main_class: str,
        *arguments: str,
        stdin: int | IO[str] = subprocess.DEVNULL,
        stdout: int | IO[str] = subprocess.PIPE,
        stderr: int | IO[str] | None = None,
        cwd: Path | None = None,
    ) -> subprocess.Popen[str]:
        """Start and return at once; the caller reads, ends and waits for it."""
        command = self.command(main_class, *arguments)
        return subprocess.Popen(command, stdin=stdin, stdout=stdout, stderr=stderr, cwd=cwd, text=True)
