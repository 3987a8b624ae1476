"""Random JSON Schemas and values, for comparing with a validator."""

from __future__ import annotations

import random
from typing import Any

NAMES = ("a", "b", "ab")


class Pairs:
    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def schema(self, depth: int = 2) -> Any:
        choice = self._random.random()
        if choice < 0.05:
            return self._random.choice([True, False, {}])
        if depth and choice < 0.25:
            return self._combined(depth)
        return self._plain(depth)

    def evolved(self, schema: Any, depth: int = 2) -> Any:
        """The same schema with a few keywords changed, added or removed."""
        if not isinstance(schema, dict) or self._random.random() < 0.05:
            return self.schema(depth)
        changed = dict(schema)
        for name in list(changed):
            if self._random.random() < 0.15:
                del changed[name]
        if self._random.random() < 0.3:
            extra = self._plain(depth)
            changed |= {name: extra[name] for name in extra if self._random.random() < 0.4}
        for name in ("items", "additionalProperties", "not"):
            if isinstance(changed.get(name), dict) and self._random.random() < 0.5:
                changed[name] = self.evolved(changed[name], depth - 1)
        for name in ("properties", "patternProperties"):
            if name in changed:
                changed[name] = {key: self._maybe_evolved(each, depth) for key, each in changed[name].items()}
        for name in ("anyOf", "oneOf", "allOf"):
            if name in changed:
                changed[name] = [self._maybe_evolved(each, depth) for each in changed[name]]
                if name == "anyOf" and self._random.random() < 0.3:
                    changed[name].append(self.schema(0))
        return changed

    def value(self, depth: int = 2) -> Any:
        kinds = [None, True, -1, 0, 1, 2, 3, 4, 6, 1.5, 2.0, "", "a", "ab", "xyz"]
        choice = self._random.random()
        if depth and choice < 0.25:
            return [self.value(depth - 1) for _ in range(self._random.randint(0, 3))]
        if depth and choice < 0.6:
            names = self._random.sample((*NAMES, "z"), self._random.randint(0, 3))
            return {name: self.value(depth - 1) for name in names}
        return self._random.choice(kinds)

    def _maybe_evolved(self, schema: Any, depth: int) -> Any:
        return self.evolved(schema, depth - 1) if self._random.random() < 0.5 else schema

    def _combined(self, depth: int) -> dict[str, Any]:
        name = self._random.choice(["anyOf", "allOf", "not", "anyOf"])
        plain = self._plain(depth) if self._random.random() < 0.4 else {}
        if name == "not":
            return plain | {"not": self.schema(depth - 1)}
        return plain | {name: [self.schema(depth - 1) for _ in range(self._random.randint(1, 3))]}

    def _plain(self, depth: int) -> dict[str, Any]:
        pick = self._random.choice
        kind = pick(
            ["string", "integer", "number", "boolean", "null", *(["array", "object"] * 2 if depth else [])]
        )
        found: dict[str, Any] = {"type": kind}
        if self._random.random() < 0.15:
            found["type"] = [kind, "null"] if kind != "null" else ["null", "string"]
        elif self._random.random() < 0.05:
            del found["type"]
        if self._random.random() < 0.1:
            found["enum"] = [self.value(0) for _ in range(2)]
        keywords = self._keywords(kind, depth).items()
        return found | {name: value for name, value in keywords if self._random.random() < 0.35}

    def _keywords(self, kind: str, depth: int) -> dict[str, Any]:
        number, pick = self._random.randint, self._random.choice
        match kind:
            case "integer" | "number":
                return {
                    "minimum": number(0, 3), "maximum": number(2, 6), "exclusiveMinimum": number(0, 3),
                    "multipleOf": pick([1, 2, 3, 0.5]),
                }  # fmt: skip
            case "string":
                return {
                    "minLength": number(0, 2),
                    "maxLength": number(1, 3),
                    "pattern": pick(["^a", "b$", "x"]),
                }
            case "array":
                return {
                    "items": pick([self.schema(depth - 1), [self.schema(0), self.schema(0)]]),
                    "minItems": number(0, 2), "maxItems": number(1, 3),
                    "uniqueItems": True,
                }  # fmt: skip
            case "object":
                return {
                    "properties": {name: self.schema(depth - 1) for name in NAMES if self._random.random() < 0.6},
                    "required": [name for name in NAMES if self._random.random() < 0.3],
                    "additionalProperties": self.schema(0) if self._random.random() < 0.5 else False,
                    "patternProperties": {pick(["^a", "b$"]): self.schema(0)},
                    "propertyNames": {"pattern": pick(["^a", "b"])},
                    "maxProperties": number(0, 3),
                }  # fmt: skip
        return {}
