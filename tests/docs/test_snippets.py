"""The runner of the pages fails for a wrong page: a test of pages that can't fail would prove nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.page_runner import PageRunner
from tests.docs.snippets import BadPage, matches, read_blocks, read_commands


def run(page: str, folder: Path) -> int:
    with PageRunner(page, name="page.md", folder=folder) as runner:
        return runner.run()


def test_output_that_differs_fails_the_page(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"page.md:2 shows"):
        run("```console\n$ echo one\ntwo\n```\n", tmp_path)


def test_command_that_fails_unexpectedly_fails_the_page(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="ended with 3"):
        run("```console\n$ exit 3\n```\n", tmp_path)


def test_command_that_should_fail_and_succeeds_fails_the_page(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="ended with 0"):
        run("<!-- run: fails -->\n```console\n$ true\n```\n", tmp_path)


def test_python_blocks_share_names_and_their_output_is_compared(tmp_path: Path) -> None:
    page = "```python\nx = 1\n```\n\n```python\nprint(x)\n```\n\n```text\n{}\n```\n"
    assert run(page.format(1), tmp_path) == 2
    with pytest.raises(AssertionError, match="here it is"):
        run(page.format(2), tmp_path)


def test_titled_block_becomes_a_file(tmp_path: Path) -> None:
    assert run('```toml title="a.toml"\nx = 1\n```\n\n```console\n$ cat a.toml\nx = 1\n```\n', tmp_path) == 1


def test_block_of_a_language_without_a_runner_is_rejected() -> None:
    with pytest.raises(BadPage, match="line 1"):
        read_blocks("```sh\nheadrace topic list\n```\n")


def test_command_in_a_block_that_does_not_run_is_rejected() -> None:
    with pytest.raises(BadPage, match="console"):
        read_blocks("```\nheadrace topic list\n```\n")


def test_block_that_does_not_run_needs_a_reason() -> None:
    with pytest.raises(BadPage, match="give the reason"):
        read_blocks("<!-- run: not here -->\n```console\n$ true\n```\n")


def test_commands_are_split_at_prompts_and_joined_at_backslashes() -> None:
    (block,) = read_blocks("```console\n$ a \\\n    b\nout\n$ c\n```\n")
    first, second = read_commands(block)
    assert (first.text, first.output, first.line) == ("a \\\n    b", "out", 2)
    assert (second.text, second.output, second.line) == ("c", "", 5)


@pytest.mark.parametrize(
    ("expected", "printed", "is_match"),
    [
        ("a…c", "abc\n", True),
        ("a…c", "ab\n", False),
        ("a\n…\nd", "a\nb\nc\nd\n", True),
        ("a\n…\nd", "a\nb\nc\n", False),
        ("a", "a\nb\n", False),
        ("a  b", "a  b   \n", True),
        ("1.5", "1x5\n", False),
    ],
)
def test_only_dots_match_any_output(expected: str, printed: str, is_match: bool) -> None:
    assert matches(expected, printed) is is_match
