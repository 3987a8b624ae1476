"""A condition on records: JSON objects, whose fields may be nested and are not declared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from headrace.conditions.evaluation import evaluated
from headrace.conditions.expression import Expression
from headrace.conditions.text import ConditionParser


class Condition(Struct, frozen=True, kw_only=True):
    text: str
    tree: Expression
    paths: Mapping[str, tuple[str, ...]]
    """Of the fields that it names."""

    def holds(self, record: Mapping[str, Any]) -> bool:
        """Whether it is true. A field that is missing is null, and a condition on null is not true.

        NotComparable if the fields have types that it can't be evaluated for.
        """
        fields = {name: field_at(record, path) for name, path in self.paths.items()}
        return evaluated(self.tree, fields) is True


def parse_condition(text: str) -> Condition:
    parser = ConditionParser(text)
    return Condition(tree=parser.tree(), text=text, paths=parser.columns)


def field_at(record: object, path: Sequence[str]) -> Any:
    """The value of a nested field; None if it is missing."""
    for name in path:
        if not isinstance(record, Mapping):
            return None
        record = record.get(name)
    return record
