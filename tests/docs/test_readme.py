"""The commands at the start of the README work in their order."""

from __future__ import annotations

import re
import signal
import time
from pathlib import Path

from tests.docs.page_runner import (
    COMMAND_TIMEOUT_S,
    EVENTUALLY_TIMEOUT_S,
    STARTS_BROKER,
    PageRunner,
    wait_for,
)

README = Path(__file__).parents[2] / "README.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README.read_text(), re.DOTALL | re.MULTILINE)


def commands() -> list[str]:
    lines = [line.split("  #")[0].strip() for block in blocks("sh") for line in block.splitlines()]
    # `make run` and `make test` set the whole repository up; the second runs this very test.
    return [line for line in lines if line and not line.startswith("make ")]


def run_until_done(runner: PageRunner, command: str) -> None:
    """A group appears a moment after its first consumer has started."""
    deadline_s = time.monotonic() + EVENTUALLY_TIMEOUT_S
    while (done := runner.shell(command)).returncode != 0:
        assert time.monotonic() < deadline_s, f"`{command}`\n{done.stdout.decode()}"
        time.sleep(0.2)


def test_commands_of_the_readme_run_in_their_order(tmp_path: Path) -> None:
    first, *rest = commands()
    assert STARTS_BROKER.match(first)
    with PageRunner("", name="README.md", folder=tmp_path) as runner:
        output = tmp_path / "broker-output"
        broker = runner.start(runner.with_free_ports(first), output)
        beside = []
        try:
            wait_for(output, "ready at", broker, first)
            for command in rest:
                if "--follow" in command:
                    beside.append(runner.start(command, tmp_path / "follow-output"))
                else:
                    run_until_done(runner, command)
        finally:
            for process in (*beside, broker):
                process.send_signal(signal.SIGINT)
                process.wait(timeout=COMMAND_TIMEOUT_S)
        assert broker.returncode == 0, output.read_text()


def test_commands_of_the_readme_except_the_first_and_the_last_take_an_address() -> None:
    reference = (README.parent / "docs" / "reference" / "cli.md").read_text()
    helps = dict(re.findall(r"^## (headrace .+?)\n\n```text\n(.*?)^```", reference, re.DOTALL | re.MULTILINE))
    typed = [line.rpartition("| ")[2] for line in commands()]
    names = [max((name for name in helps if f"{line} ".startswith(f"{name} ")), key=len) for line in typed]
    assert [names[0], names[-1]] == ["headrace broker", "headrace log dump"]
    assert [name for name in names[1:-1] if "--bootstrap" not in helps[name]] == []


def test_metrics_of_the_readme_exist() -> None:
    docs = README.parent / "docs"
    metrics = (docs / "reference" / "metrics.md").read_text()
    named = re.findall(r"`(headrace_[a-z_]+)`", (docs / "how-to" / "watch.md").read_text())
    assert [name for name in named if f"| `{name}` |" not in metrics] == []
    assert "headrace_group_lag" in named


def test_python_of_the_readme_runs() -> None:
    names: dict[str, object] = {}
    for block in blocks("python"):
        exec(compile(block, "README.md", "exec"), names)
    assert names


def test_script_of_the_readme_is_the_one_that_the_tutorial_runs() -> None:
    """The test of the tutorial runs it: no second start of Spark for the same lines."""
    script = re.compile(r'^```python title="shop.py"\n(.*?)^```', re.DOTALL | re.MULTILINE)
    readme = script.search(README.read_text())
    run = script.search((README.parent / "docs" / "tutorial" / "first-job.md").read_text())

    assert readme is not None
    assert run is not None
    assert without_comments(readme[1]) == without_comments(run[1])


def without_comments(code: str) -> list[str]:
    return [line.split("  #")[0] for line in code.splitlines()]
