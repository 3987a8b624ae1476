"""Java programs for tests: the main classes of a folder of jars, run as processes.

`headrace.java` finds Java and fetches jars.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import IO, Literal

from msgspec import Struct

from headrace.errors import HeadraceError
from headrace.java import JarSet, fetch_jars, java_command

LogLevel = Literal["trace", "debug", "info", "warn", "error", "off"]

HEAP_MB = 256
"""Enough for every command-line tool of Kafka, and small enough to run several tools beside a broker."""


COMPILER = JarSet(name="ecj-3.38.0", dependencies=("org.eclipse.jdt:ecj:3.38.0",))
"""Eclipse's compiler, so that a Java runtime is enough."""


class NotCompiled(HeadraceError):
    """The compiler rejected a Java program."""


class JavaTools(Struct, frozen=True, kw_only=True):
    """The main classes of a folder of jars, each run in a Java process of its own.

    `quick_start` trades peak speed for a quicker start: good for a tool that runs for a second, bad for a benchmark.
    `log_level` is the lowest level that the programs log to stderr.
    """

    jars: Path
    heap_mb: int = HEAP_MB
    quick_start: bool = True
    log_level: LogLevel = "warn"
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
        """Run to the end. The caller interprets the exit code."""
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
        """Start a process and return immediately. The caller reads its output, ends it and waits for it."""
        command = self.command(main_class, *arguments)
        return subprocess.Popen(command, stdin=stdin, stdout=stdout, stderr=stderr, cwd=cwd, text=True)


def compiled(source: Path, jars: Path) -> Path:
    """The folder with a compiled program of one file, beside the jars that it uses."""
    classes = jars.with_name(f"{jars.name}-classes")
    made = classes / f"{source.stem}.class"
    if made.exists() and made.stat().st_mtime > source.stat().st_mtime:
        return classes
    compiler = fetch_jars(COMPILER)
    with tempfile.TemporaryDirectory() as folder:
        command = [java_command(), "-cp", f"{compiler}/*", "org.eclipse.jdt.internal.compiler.batch.Main"]
        command += ["-17", "-nowarn", "-cp", ":".join(map(str, sorted(jars.glob("*.jar"))))]
        done = subprocess.run(
            [*command, "-d", folder, str(source)], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise NotCompiled(f"{source.name} could not be compiled:\n{done.stdout}{done.stderr}")
        classes.mkdir(exist_ok=True)
        for each in Path(folder).glob("*.class"):
            (classes / each.name).write_bytes(each.read_bytes())
    return classes
