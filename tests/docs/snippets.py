"""Which parts of a documentation page can be run: fenced blocks, read from Markdown.

```python        run; all blocks of a page share their names. A ```text block right behind shows what it prints.
```console       `$ ` starts a command (a `\\` at the end continues it); its output follows.
```toml title="headrace.toml"     any block with a title is written to that file.

In an expected output `…` stands for anything within a line, and alone on a line for any lines. A last line `^C` means
that the command runs until it is stopped, together with the next block.

Above a block or alone, `<!-- run: … -->` is a directive for the runner; see `Directive`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

LANGUAGES_RUN = frozenset({"python", "console"})
# Shown, or written to a file; nothing to run. `py` includes a script, which tests/examples runs.
LANGUAGES_SHOWN = frozenset({"", "text", "toml", "ini", "json", "yaml", "mermaid", "py"})

_FENCE = re.compile(r'```(?P<language>\w*)(?: title="(?P<title>[^"]+)")?\s*')
_COMMAND = re.compile(r"^(?:\$ |headrace )", re.MULTILINE)
_DIRECTIVE = re.compile(r"<!-- run: (?P<words>.+?) -->\s*")


class Directive(StrEnum):
    FAILS = "fails"  # the commands end with an error
    EVENTUALLY = "eventually"  # the commands are repeated until their output is the one shown
    NOT_HERE = "not here"  # needs something that a test machine does not have; a reason follows after a comma
    STOP_BROKER = "stop the broker"  # as Ctrl-C in the terminal where it was started


class BadPage(Exception):
    """A block that the runner would skip silently, or can't parse."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    language: str
    title: str | None
    text: str
    line: int
    directive: Directive | None
    output: str | None = None
    """For Python: the expected output, if the page has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    text: str
    output: str
    line: int

    @property
    def is_open_ended(self) -> bool:
        return self.output.rstrip().endswith("^C")


def read_blocks(page: str) -> list[Block]:
    """The blocks of a page in order; a `stop the broker` that stands alone is a block without text."""
    blocks: list[Block] = []
    directive: Directive | None = None
    lines = page.split("\n")
    position = 0
    while position < len(lines):
        line, number = lines[position], position + 1
        position += 1
        if found := _DIRECTIVE.fullmatch(line):
            directive = _directive(found["words"], number)
            if directive is Directive.STOP_BROKER:
                blocks.append(Block(language="", title=None, text="", line=number, directive=directive))
                directive = None
        elif line.startswith("```"):
            end = lines.index("```", position)
            block = _block(line, "\n".join(lines[position:end]), number, directive)
            is_output = (
                block.language == "text" and block.title is None and _follows_python(blocks, lines, number)
            )
            if is_output:
                blocks[-1] = _with_output(blocks[-1], block.text)
            else:
                blocks.append(block)
            position, directive = end + 1, None
    return blocks


def _block(fence: str, text: str, line: int, directive: Directive | None) -> Block:
    found = _FENCE.fullmatch(fence)
    if found is None or found["language"] not in LANGUAGES_RUN | LANGUAGES_SHOWN:
        raise BadPage(f"line {line}: {fence} is none of {sorted(LANGUAGES_RUN | LANGUAGES_SHOWN)}")
    if found["language"] == "" and _COMMAND.search(text):
        raise BadPage(f"line {line}: commands belong into a block of ```console, where they are run")
    return Block(language=found["language"], title=found["title"], text=text, line=line, directive=directive)


def _directive(words: str, line: int) -> Directive:
    kind, _, reason = words.partition(",")
    if kind == Directive.NOT_HERE and not reason.strip():
        raise BadPage(f"line {line}: give the reason after a comma")
    try:
        return Directive(kind)
    except ValueError:
        raise BadPage(f"line {line}: {kind!r} is none of {[each.value for each in Directive]}") from None


def _follows_python(blocks: list[Block], lines: list[str], fence_line: int) -> bool:
    """Is there nothing but blank lines between the fence and a block of Python?"""
    above = fence_line - 2
    while above >= 0 and not lines[above].strip():
        above -= 1
    last = blocks[-1] if blocks else None
    return (
        last is not None
        and last.language == "python"
        and last.title is None
        and above == last.line + last.text.count("\n") + 1
    )


def _with_output(block: Block, output: str) -> Block:
    return Block(
        language=block.language,
        title=block.title,
        text=block.text,
        line=block.line,
        directive=block.directive,
        output=output,
    )


def read_commands(block: Block) -> Iterator[Command]:
    """The commands of a console block, each with the output shown below it."""
    lines = block.text.split("\n")
    if not lines[0].startswith("$ "):
        raise BadPage(f"line {block.line}: a console block starts with `$ ` and a command")
    position = 0
    while position < len(lines):
        number = block.line + 1 + position
        command = [lines[position].removeprefix("$ ")]
        position += 1
        while command[-1].endswith("\\"):
            command.append(lines[position])
            position += 1
        output: list[str] = []
        while position < len(lines) and not lines[position].startswith("$ "):
            output.append(lines[position])
            position += 1
        yield Command(text="\n".join(command), output="\n".join(output), line=number)


def output_pattern(expected: str) -> re.Pattern[str]:
    """Matches the expected output; spaces at the end of a line, and blank lines around all, do not count."""
    lines = [line.rstrip() for line in expected.strip("\n").split("\n")]
    patterns = [
        r"(?:.*\n)*?" if line == "…" else re.escape(line).replace(re.escape("…"), ".*") + r"[ ]*\n"
        for line in lines
    ]
    return re.compile(r"\n*" + "".join(patterns) + r"\n*")


def matches(expected: str, printed: str) -> bool:
    if not expected.strip():
        return True
    return output_pattern(expected).fullmatch(printed.rstrip("\n") + "\n") is not None
