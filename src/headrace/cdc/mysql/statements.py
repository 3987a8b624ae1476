"""Statements of the binary log: which tables one changes without row events, and how. No I/O.

Rows are in row events. A statement is read only as far as its first words and its tables.
"""

from __future__ import annotations

import re
from enum import Enum

from msgspec import Struct

Path = tuple[str, str]


class Effect(Enum):
    ALTERED = "altered"
    """its columns may be others"""
    EMPTIED = "emptied"
    """its rows are gone"""
    REPLACED = "replaced"
    """its rows are others, and there are no row events of them"""
    CHANGED_ROWS = "changed rows"
    """a change in statement format: which rows, only the server knows"""


class Affected(Struct, frozen=True):
    path: Path
    effect: Effect


_SPACE = r"(?:\s|/\*(?!!).*?\*/|(?:--\s|\#)[^\n]*\n)"
_NAME = r"(?:`(?:[^`]|``)+`|\"(?:[^\"]|\"\")+\"|[^\s`\".,;()]+)"
_TABLE = rf"{_NAME}(?:{_SPACE}*\.{_SPACE}*{_NAME})?"
_PAIR = re.compile(rf"({_NAME})(?:{_SPACE}*\.{_SPACE}*({_NAME}))?", re.DOTALL)
_LEAD = rf"(?:{_SPACE}|/\*[!M]+\d*|\*/)*"
_EXISTS = rf"(?:IF{_SPACE}+(?:NOT{_SPACE}+)?EXISTS{_SPACE}+)?"


def _pattern(words: str, rest: str) -> re.Pattern[str]:
    joined = rf"{_SPACE}+".join(words.split())
    return re.compile(rf"{_LEAD}{joined}{_SPACE}+{rest}", re.DOTALL | re.IGNORECASE)


_TRUNCATE = _pattern("TRUNCATE", rf"(?:TABLE{_SPACE}+)?(?P<table>{_TABLE})")
_ALTER = _pattern(
    "ALTER", rf"(?:(?:ONLINE|OFFLINE|IGNORE){_SPACE}+)*TABLE{_SPACE}+{_EXISTS}(?P<table>{_TABLE})(?P<rest>.*)"
)
_CREATE = _pattern(
    "CREATE", rf"(?P<replace>OR{_SPACE}+REPLACE{_SPACE}+)?TABLE{_SPACE}+{_EXISTS}(?P<table>{_TABLE})"
)
_DROP = _pattern("DROP", rf"TABLES?{_SPACE}+{_EXISTS}(?P<tables>{_TABLE}(?:{_SPACE}*,{_SPACE}*{_TABLE})*)")
_RENAME = _pattern("RENAME", rf"TABLES?{_SPACE}+{_EXISTS}(?P<rest>.*)")
_RENAMED = re.compile(
    rf"(?P<old>{_TABLE})(?:{_SPACE}+(?:WAIT{_SPACE}+\d+|NOWAIT))?{_SPACE}+TO{_SPACE}+(?P<new>{_TABLE})",
    re.DOTALL | re.IGNORECASE,
)
_ALTER_RENAME = re.compile(
    rf"\bRENAME{_SPACE}+(?!COLUMN\b|INDEX\b|KEY\b)(?:(?:TO|AS){_SPACE}+|={_SPACE}*)?(?P<new>{_TABLE})",
    re.DOTALL | re.IGNORECASE,
)
_REPLACES_ROWS = re.compile(
    r"\b(?:(?:TRUNCATE|DROP|EXCHANGE|CONVERT)\s+PARTITION|IMPORT\s+TABLESPACE|PRIMARY\s+KEY)\b", re.IGNORECASE
)
_CHANGES_ROWS = re.compile(rf"{_LEAD}(?:INSERT|UPDATE|DELETE|REPLACE|LOAD)\b", re.DOTALL | re.IGNORECASE)


def affected(statement: str, database: str) -> list[Affected]:
    """What a statement does to tables. `database` is the one that names without a database are in."""

    def path(text: str) -> Path:
        return _path(text, database)

    if found := _TRUNCATE.match(statement):
        return [Affected(path(found["table"]), Effect.EMPTIED)]
    if found := _ALTER.match(statement):
        table, rest = path(found["table"]), found["rest"]
        if renamed := _ALTER_RENAME.search(rest):
            return _rename(table, _path(renamed["new"], table[0]))
        is_replaced = _REPLACES_ROWS.search(rest) is not None
        return [Affected(table, Effect.REPLACED if is_replaced else Effect.ALTERED)]
    if found := _CREATE.match(statement):
        return [Affected(path(found["table"]), Effect.EMPTIED if found["replace"] else Effect.ALTERED)]
    if found := _DROP.match(statement):
        return [
            Affected(_path(f"{first}.{second}" if second else first, database), Effect.EMPTIED)
            for first, second in _PAIR.findall(found["tables"])
        ]
    if found := _RENAME.match(statement):
        pairs = _RENAMED.finditer(found["rest"])
        return [each for pair in pairs for each in _rename(path(pair["old"]), path(pair["new"]))]
    if _CHANGES_ROWS.match(statement):
        return [Affected((database, ""), Effect.CHANGED_ROWS)]
    return []


def first_word(statement: str) -> str:
    """In upper case: BEGIN, COMMIT, XA, …"""
    found = re.match(rf"{_LEAD}(\w*)", statement, re.DOTALL)
    return found[1].upper() if found else ""


def _rename(old: Path, new: Path) -> list[Affected]:
    return [Affected(old, Effect.EMPTIED), Affected(new, Effect.REPLACED)]


def _path(text: str, database: str) -> Path:
    found = _PAIR.match(text)
    assert found is not None, text
    first, second = found.groups()
    return (database, _plain(first)) if second is None else (_plain(first), _plain(second))


def _plain(name: str) -> str:
    quote = name[0]
    return name[1:-1].replace(quote * 2, quote) if quote in '`"' else name
