"""Whose data is erased: which keys and which values name the person."""

from __future__ import annotations

import functools
import json
from typing import Any

from msgspec import Struct

from headrace.erasure.errors import BadErasure

# Where the columns of a row are: in the value itself, or in the envelope of a change event, with or without a schema.
_ROWS = ((), ("after",), ("before",), ("payload",), ("payload", "after"), ("payload", "before"))


class Match(Struct, frozen=True, kw_only=True):
    """A field of JSON values that names the person."""

    path: tuple[str, ...]
    text: str

    @classmethod
    def parse(cls, written: str) -> Match:
        """`field=value`; a dot leads into an object."""
        field, separator, text = written.partition("=")
        if not separator or not all(field.split(".")):
            raise BadErasure(
                f"{written!r} does not name a field and its value",
                hint="write FIELD=VALUE, such as user.id=7",
            )
        return cls(path=tuple(field.split(".")), text=text)

    def is_in(self, document: Any) -> bool:
        return any(_text(_at(document, (*row, *self.path))) == self.text for row in _ROWS)


class Subject(Struct, frozen=True, kw_only=True):
    """A person: the key of the records, and fields of the values of other records."""

    key: str
    """Text, or JSON such as {"id": 1}; or bytes in hexadecimal digits, if `is_hex`."""
    is_hex: bool = False
    matches: tuple[Match, ...] = ()

    def __post_init__(self) -> None:
        if not self.key:
            raise BadErasure("the key is empty", hint="name the key of the records to erase")
        if self.is_hex:
            try:
                bytes.fromhex(self.key)
            except ValueError:
                raise BadErasure(
                    f"{self.key!r} is not a key in hexadecimal digits", hint="two digits for each byte"
                ) from None

    def matcher(self) -> Matcher:
        return Matcher(self)

    @property
    def is_object(self) -> bool:
        """Whether the key is a JSON object, as change events have it."""
        return isinstance(_parsed(self.key.encode()), dict)

    def column(self, name: str) -> str:
        """The text by which a place finds the person in a column: the field of an object, or the key itself."""
        document = _parsed(self.key.encode())
        if not isinstance(document, dict):
            return self.key
        found = _text(document.get(name, next(iter(document.values())) if len(document) == 1 else None))
        if found is None:
            raise BadErasure(
                f"the key has no field {name}", hint="name a column that is a field of the JSON key"
            )
        return found


class Matcher:
    """Finds a person in keys and values. Most keys are compared as bytes and never parsed."""

    def __init__(self, subject: Subject) -> None:
        self._exact = bytes.fromhex(subject.key) if subject.is_hex else subject.key.encode()
        self._matches = subject.matches
        self._forms: frozenset[str] = frozenset()
        if not subject.is_hex:
            forms = {_canonical(subject.key)}
            document = _parsed(self._exact)
            if document is not None:
                forms.add(_canonical(document))
            self._forms = frozenset(forms)
        # A topic has few distinct keys that look like the wanted one, but may have many records of each.
        self.is_key = functools.lru_cache(maxsize=100_000)(self._is_key)

    @property
    def reads_values(self) -> bool:
        return bool(self._matches)

    def _is_key(self, key: bytes) -> bool:
        """The same bytes, or the same JSON; a key with its schema counts as its payload."""
        if key == self._exact:
            return True
        if not self._forms or key[:1] not in b'{["' or not key:
            return False
        document = _parsed(key)
        if isinstance(document, dict) and document.keys() == {"schema", "payload"}:
            document = document["payload"]
        return document is not None and _canonical(document) in self._forms

    def is_value(self, value: bytes) -> bool | None:
        """Whether a field of the value names the person; None if it is not JSON."""
        document = _parsed(value)
        if document is None:
            return None
        return any(each.is_in(document) for each in self._matches)


def _parsed(text: bytes) -> Any:
    """None if it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _canonical(document: Any) -> str:
    return json.dumps(document, sort_keys=True)


def _at(document: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        if not isinstance(document, dict):
            return None
        document = document.get(name)
    return document


def _text(found: Any) -> str | None:
    """A scalar as people write it; None for anything else."""
    if isinstance(found, str):
        return found
    return json.dumps(found) if isinstance(found, bool | int | float) else None
