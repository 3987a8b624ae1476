"""Java and its jars: where the runtime is, and fetching jars once, into a cache of Headrace's own.

The jars come by Apache Ivy, whose own jar is part of pyspark, so neither Maven nor a list of download
addresses is needed. What the jars do is not known here.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

from msgspec import Struct

from headrace.errors import HeadraceError

FETCH_TIMEOUT_S = 900
"""A cold fetch of a hundred jars takes a minute; a slow line gets more, a dead one does not hang for ever."""

OUTPUT_LINES_QUOTED = 25
"""How much of a failed program's output an error message repeats: the cause, not the whole story."""


INSTALL_JAVA = (
    "install a runtime, version 17 or newer (Debian, Ubuntu: apt-get install openjdk-17-jre-headless; "
    "macOS: brew install openjdk@17)"
)


class JavaUnavailable(HeadraceError):
    """Java, or the jars that were to run in it, cannot be had on this machine."""


class JarSet(Struct, frozen=True, kw_only=True):
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
            hint=INSTALL_JAVA,
        )
    return found


def java_version(command: str) -> int | None:
    """Its major version (17 of `17.0.15`); None where `command` is no Java that works.

    A Java carries a file that says so, which is read in no time; only where there is none is Java asked.
    """
    release = Path(command).resolve().parent.parent / "release"
    if release.is_file() and (said := _VERSION_IN_RELEASE.search(release.read_text(errors="replace"))):
        return _major(said[1])
    try:
        asked = subprocess.run([command, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except OSError:
        return None
    answered = _VERSION_IN_ANSWER.search(asked.stderr + asked.stdout)
    return _major(answered[1]) if asked.returncode == 0 and answered else None


_VERSION_IN_RELEASE = re.compile(r'^JAVA_VERSION="([\d.]+)', re.MULTILINE)
_VERSION_IN_ANSWER = re.compile(r'version "([\d.]+)')


def _major(version: str) -> int:
    """Java 8 called itself 1.8."""
    parts = version.split(".")
    return int(parts[1] if parts[0] == "1" and len(parts) > 1 else parts[0])


def java_of_version(version_min: int) -> str:
    """As `java_command`, of this version or a newer one."""
    command = java_command()
    version = java_version(command)
    if version is None or version < version_min:
        found = "does not run" if version is None else f"is version {version}"
        raise JavaUnavailable(
            f"Java {version_min} or newer is needed, and {command} {found}",
            hint=f"{INSTALL_JAVA}; if it is there already, name its folder in JAVA_HOME",
        )
    return command


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
    code, output = _run_ivy(command)
    if code is None:
        raise JavaUnavailable(
            f"fetching the jars of {jar_set.name} took longer than {FETCH_TIMEOUT_S} s",
            hint="check the network, and try again",
        )
    if code != 0 or not any(jars.glob("*.jar")):
        raise JavaUnavailable(
            f"the jars of {jar_set.name} could not be fetched:\n{last_lines(output)}",
            hint="check the network; behind a mirror, name your ivysettings.xml in HEADRACE_IVY_SETTINGS",
        )
    return jars


def _run_ivy(command: list[str]) -> tuple[int | None, str]:
    """Its exit code, None if it took too long, and what it said. Each jar is shown when it has come."""
    ivy = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert ivy.stdout is not None
    timer = threading.Timer(FETCH_TIMEOUT_S, ivy.kill)
    timer.start()
    said: list[str] = []
    try:
        for line in ivy.stdout:
            said.append(line)
            if arrived := _ARRIVED.search(line):
                print(f"  {arrived[1]}", file=sys.stderr, flush=True)
        code = ivy.wait()
    finally:
        is_late = not timer.is_alive()
        timer.cancel()
        ivy.kill()
        ivy.wait()
        ivy.stdout.close()
    return None if is_late else code, "".join(said)


_ARRIVED = re.compile(r"\[SUCCESSFUL \] \S+#(\S+?;\S+?)!")
"""Ivy's way to say that a file has come: `[SUCCESSFUL ] organisation#module;revision!file.jar (12ms)`."""


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
