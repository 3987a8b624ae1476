"""Java and its jars: finds the runtime, and fetches jars once, into the cache of Headrace.

Apache Ivy fetches the jars. Its own jar is part of pyspark, so neither Maven nor a list of download addresses is
needed.
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
"""A hundred jars take a minute. A slow network gets more time, and a dead one does not block forever."""

OUTPUT_LINES_QUOTED = 25
"""How many lines of the output of a failed program an error message has."""


INSTALL_JAVA = (
    "install a runtime, version 17 or newer (Debian, Ubuntu: apt-get install openjdk-17-jre-headless; "
    "macOS: brew install openjdk@17)"
)


class JavaUnavailable(HeadraceError):
    """Java is missing or too old, or jars cannot be fetched."""


class JarSet(Struct, frozen=True, kw_only=True):
    """Jars that are fetched together, with their dependencies.

    The format of coordinates is `organisation:module:revision`; a fourth part is a classifier, which fetches that jar
    without dependencies. An exclude is `organisation` or
    `organisation:module`. An override replaces the revision of a transitive dependency.
    """

    name: str
    dependencies: tuple[str, ...]
    excludes: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()

    def ivy_xml(self) -> str:
        """The set as an Ivy file. Ivy requires the excludes before the overrides."""
        module = ElementTree.Element("ivy-module", version="2.0")
        ElementTree.SubElement(module, "info", organisation="headrace", module=self.name)
        configurations = ElementTree.SubElement(module, "configurations")
        ElementTree.SubElement(configurations, "conf", name="default")
        dependencies = ElementTree.SubElement(module, "dependencies")
        for coordinate in self.dependencies:
            plain, classifier = _classified(coordinate)
            organisation, name, revision = _coordinate(plain)
            dependency = ElementTree.SubElement(
                dependencies,
                "dependency",
                {"org": organisation, "name": name, "rev": revision, "conf": "default->default"},
            )
            if classifier:
                dependency.set("transitive", "false")
                ElementTree.SubElement(
                    dependency,
                    "artifact",
                    {"name": name, "type": "jar", "ext": "jar", f"{{{_MAVEN}}}classifier": classifier},
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
        """The name and a digest of the contents, so that a changed set gets another folder."""
        return f"{self.name}-{hashlib.sha256(self.ivy_xml().encode()).hexdigest()[:8]}"


_MAVEN = "http://ant.apache.org/ivy/maven"
"""The namespace of what Maven's repositories have and Ivy has not."""


def _classified(coordinate: str) -> tuple[str, str]:
    parts = coordinate.split(":")
    return ":".join(parts[:3]), ":".join(parts[3:])


def _coordinate(text: str) -> tuple[str, str, str]:
    parts = text.split(":")
    if len(parts) != 3 or not all(parts):
        raise ValueError(f"{text!r} is not a coordinate of the form organisation:module:revision")
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
            "Java is not installed",
            hint=INSTALL_JAVA,
        )
    return found


def java_version(command: str) -> int | None:
    """The major version of Java (17 of `17.0.15`); None if `command` does not run.

    Most runtimes have a file with the version, which is quick to read. If it is missing, `java -version` runs.
    """
    release = Path(command).resolve().parent.parent / "release"
    if release.is_file() and (found := _VERSION_IN_RELEASE.search(release.read_text(errors="replace"))):
        return _major(found[1])
    try:
        done = subprocess.run([command, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except OSError:
        return None
    found = _VERSION_IN_OUTPUT.search(done.stderr + done.stdout)
    return _major(found[1]) if done.returncode == 0 and found else None


_VERSION_IN_RELEASE = re.compile(r'^JAVA_VERSION="([\d.]+)', re.MULTILINE)
_VERSION_IN_OUTPUT = re.compile(r'version "([\d.]+)')


def _major(version: str) -> int:
    """The version of Java 8 is 1.8."""
    parts = version.split(".")
    return int(parts[1] if parts[0] == "1" and len(parts) > 1 else parts[0])


def java_of_version(version_min: int) -> str:
    """Like `java_command`, but an error if Java is older than this version."""
    command = java_command()
    version = java_version(command)
    if version is None or version < version_min:
        found = "does not run" if version is None else f"is version {version}"
        raise JavaUnavailable(
            f"Java {version_min} or newer is needed, but {command} {found}",
            hint=f"{INSTALL_JAVA}; if it is already installed, set JAVA_HOME to its folder",
        )
    return command


def fetch_jars(jar_set: JarSet) -> Path:
    """The folder with the jars of `jar_set`, which the first call fetches.

    The folder appears only when it is complete, and processes that need the same set at the same time fetch it once.
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
    """Run Ivy with its cache in `workplace`: it reads and writes no files of the user."""
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
            hint="check the network, and retry",
        )
    if code != 0 or not any(jars.glob("*.jar")):
        raise JavaUnavailable(
            f"the jars of {jar_set.name} could not be fetched:\n{last_lines(output)}",
            hint="check the network; if you use a mirror, set HEADRACE_IVY_SETTINGS to your ivysettings.xml",
        )
    return jars


def _run_ivy(command: list[str]) -> tuple[int | None, str]:
    """The exit code of Ivy, or None after a timeout, and its output. Prints the name of each fetched jar."""
    ivy = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert ivy.stdout is not None
    timer = threading.Timer(FETCH_TIMEOUT_S, ivy.kill)
    timer.start()
    output: list[str] = []
    try:
        for line in ivy.stdout:
            output.append(line)
            if fetched := _FETCHED.search(line):
                print(f"  {fetched[1]}", file=sys.stderr, flush=True)
        code = ivy.wait()
    finally:
        is_late = not timer.is_alive()
        timer.cancel()
        ivy.kill()
        ivy.wait()
        ivy.stdout.close()
    return None if is_late else code, "".join(output)


_FETCHED = re.compile(r"\[SUCCESSFUL \] \S+#(\S+?;\S+?)!")
"""Ivy's output for a fetched file: `[SUCCESSFUL ] organisation#module;revision!file.jar (12ms)`."""


def _ivy_jar() -> Path:
    """The jar of Ivy in the installed pyspark, which is not imported, because the import is slow."""
    spec = importlib.util.find_spec("pyspark")
    locations = (spec.submodule_search_locations or []) if spec else []
    for location in locations:
        for jar in sorted(Path(location).glob("jars/ivy-*.jar")):
            return jar
    raise JavaUnavailable(
        "the jars cannot be fetched: Apache Ivy, a part of pyspark, is missing",
        hint="pip install pyspark==4.2.0",
    )


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def last_lines(text: str) -> str:
    return "\n".join(text.rstrip().splitlines()[-OUTPUT_LINES_QUOTED:])
