"""Schemas of the registry, parsed with the schemas that they refer to."""

from __future__ import annotations

import functools
from collections.abc import Callable

from headrace.gateway.registry.records import Version
from headrace.schemas.definition import Definition, Reference
from headrace.schemas.errors import InvalidSchema
from headrace.schemas.parsing import Parsed, Referenced, parse

PARSED_MAX = 2_000
"""Kept in memory: the schemas that are in use. Another one is parsed again."""

DEPTH_MAX = 30
"""Of references of references. A topic that another program wrote may have a cycle."""

Find = Callable[[Reference], Version | None]


class Resolver:
    """`find` returns the version that a reference names. Threads may share it."""

    def __init__(self, find: Find) -> None:
        self._find = find
        self._parse = functools.lru_cache(maxsize=PARSED_MAX)(_parse)

    def parse(self, definition: Definition, *, strict: bool) -> Parsed:
        """InvalidSchema if it or one of its references is not valid, or a reference is missing."""
        return self._parse(definition, self._referenced(definition, DEPTH_MAX), strict)

    def _referenced(self, definition: Definition, depth: int) -> tuple[Referenced, ...]:
        if definition.references and not depth:
            raise InvalidSchema(
                f"references are nested more than {DEPTH_MAX} levels deep", hint="is there a cycle?"
            )
        return tuple(Referenced(each.name, self._of_reference(each, depth)) for each in definition.references)

    def _of_reference(self, reference: Reference, depth: int) -> Parsed:
        version = self._find(reference)
        if version is None:
            raise InvalidSchema(
                f'No schema reference found for subject "{reference.subject}" and version {reference.version}',
                hint="register the schema that is referred to first",
            )
        definition = version.definition
        # What is registered is valid, or another registry has accepted it.
        return self._parse(definition, self._referenced(definition, depth - 1), False)


def _parse(definition: Definition, referenced: tuple[Referenced, ...], strict: bool) -> Parsed:
    return parse(definition, referenced, strict=strict)
