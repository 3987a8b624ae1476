"""Storm's DRPC in one JVM (`LocalDRPC`), with the counts in the memory of its tasks.

It has no broker between asker and topology, and no clicks change its counts: the least that DRPC takes.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.java import JarSet, fetch_jars, last_lines
from headrace.testing.java import JavaTools, compiled

VERSION = "2.8.3"
JARS = JarSet(
    name=f"storm-{VERSION}",
    dependencies=(f"org.apache.storm:storm-server:{VERSION}", f"org.apache.storm:storm-client:{VERSION}"),
)
TIMEOUT_S = 600.0
HEAP_MB = 1024
_SOURCE = Path(__file__).with_name("StormCounts.java")


class StormFailed(HeadraceError):
    """Storm ended with an error."""


def ask(*, urls: int, warmup: int, questions: int) -> dict[str, float]:
    """The median and the p99 of an answer, in milliseconds."""
    jars = fetch_jars(JARS)
    folder = str(compiled(_SOURCE, jars))
    # Storm serializes by reflection into the JDK.
    opened = tuple(
        f"--add-opens=java.base/{each}=ALL-UNNAMED" for each in ("java.lang", "java.nio", "java.util")
    )
    tools = JavaTools(jars=jars, heap_mb=HEAP_MB, quick_start=False, log_level="error", jvm_options=opened)
    command = tools.command("StormCounts", str(urls), str(warmup), str(questions))
    command[command.index("-cp") + 1] += f":{folder}"
    output = _run(command, folder)
    (line,) = [each for each in output.splitlines() if each.startswith("answers ")]
    median, p99 = map(float, line.split()[1:])
    return {"p50": median, "p99": p99}


def _run(command: list[str], folder: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise StormFailed(
            f"Storm ended with code {done.returncode}:\n{last_lines(done.stdout + done.stderr)}"
        )
    return done.stdout
