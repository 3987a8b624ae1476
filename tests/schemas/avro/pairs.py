"""Random Avro schemas, and data of them: the writer's, and a reader's that evolved from it or did not."""

from __future__ import annotations

import copy
import random
from typing import Any

PRIMITIVES = ("boolean", "int", "long", "float", "double", "bytes", "string")


class Pairs:
    """Schemas without recursion, so that every type has data. Unqualified names are unique in a schema, because
    libraries differ in which branch they take otherwise."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._names = 0

    def schema(self, depth: int = 3) -> Any:
        kinds = ["primitive"] * 3 + (["record", "array", "map", "union", "enum", "fixed"] if depth else [])
        match self._random.choice(kinds):
            case "primitive":
                return self._random.choice(PRIMITIVES)
            case "array":
                return {"type": "array", "items": self.schema(depth - 1)}
            case "map":
                return {"type": "map", "values": self.schema(depth - 1)}
            case "enum":
                symbols = self._random.sample("ABCDE", self._random.randint(1, 4))
                return {"type": "enum", "name": self._name("E"), "symbols": symbols}
            case "fixed":
                return {"type": "fixed", "name": self._name("F"), "size": self._random.randint(1, 3)}
            case "union":
                return self._union([self.schema(depth - 1) for _ in range(self._random.randint(1, 3))])
        fields = [self._field(f"f{n}", depth) for n in range(self._random.randint(0, 3))]
        return {"type": "record", "name": self._name("R"), "fields": fields}

    def evolved(self, schema: Any, depth: int = 3) -> Any:
        """The same schema with some changes, most of them small."""
        if self._random.random() < 0.08:
            return self.schema(depth)
        if isinstance(schema, str):
            wider = {"int": "long", "long": "double", "float": "double", "string": "bytes", "bytes": "string"}
            return self._random.choice([schema, schema, schema, wider.get(schema, schema)])
        if isinstance(schema, list):
            return self._evolved_union([self.evolved(each, depth - 1) for each in schema])
        changed = copy.deepcopy(schema)
        match schema["type"]:
            case "array":
                changed["items"] = self.evolved(schema["items"], depth - 1)
            case "map":
                changed["values"] = self.evolved(schema["values"], depth - 1)
            case "enum":
                self._evolve_enum(changed)
            case "fixed" if self._random.random() < 0.1:
                changed["size"] += 1
            case "record":
                self._evolve_record(changed, depth)
        if "name" in changed and self._random.random() < 0.1:
            old, changed["name"] = changed["name"], self._name("N")
            if self._random.random() < 0.5:
                changed["aliases"] = [old]
        if self._random.random() < 0.1:
            return [changed, "null"]
        return changed

    def data(self, schema: Any) -> list[Any]:
        """Enough to meet every branch and every symbol; arrays and maps are not empty. A value of a union is a pair
        with the name of its branch, as fastavro writes it."""
        if isinstance(schema, list):
            return [(_branch_name(each), value) for each in schema for value in self.data(each)]
        kind = schema if isinstance(schema, str) else schema["type"]
        match kind:
            case "null":
                return [None]
            case "boolean":
                return [True]
            case "int" | "long":
                return [7]
            case "float" | "double":
                return [0.5]
            case "bytes":
                return [b"x"]
            case "string":
                return ["x"]
            case "enum":
                return list(schema["symbols"])
            case "fixed":
                return [b"x" * schema["size"]]
            case "array":
                return [[value] for value in self.data(schema["items"])]
            case "map":
                return [{"k": value} for value in self.data(schema["values"])]
        return self._records(schema)

    def _records(self, schema: Any) -> list[Any]:
        values = {each["name"]: self.data(each["type"]) for each in schema["fields"]}
        count = max((len(each) for each in values.values()), default=1)
        return [{name: own[n % len(own)] for name, own in values.items()} for n in range(count)]

    def _field(self, name: str, depth: int) -> dict[str, Any]:
        field: dict[str, Any] = {"name": name, "type": self.schema(depth - 1)}
        return field

    def _union(self, branches: list[Any]) -> list[Any]:
        """Without what a union may not have twice, and without unions within."""
        flat = [each for one in branches for each in (one if isinstance(one, list) else [one])]
        seen: dict[Any, Any] = {}
        for each in flat:
            key = each if isinstance(each, str) else each.get("name", each["type"])
            seen.setdefault(key, each)
        return list(seen.values())

    def _evolved_union(self, branches: list[Any]) -> list[Any]:
        if self._random.random() < 0.2:
            branches = [*branches, self.schema(1)]
        if len(branches) > 1 and self._random.random() < 0.2:
            branches.pop(self._random.randrange(len(branches)))
        return self._union(branches)

    def _evolve_enum(self, enum: dict[str, Any]) -> None:
        if self._random.random() < 0.3:
            enum["symbols"] = [*enum["symbols"], "Z"]
        if len(enum["symbols"]) > 1 and self._random.random() < 0.3:
            enum["symbols"] = enum["symbols"][1:]
            if self._random.random() < 0.5:
                enum["default"] = enum["symbols"][0]

    def _evolve_record(self, record: dict[str, Any], depth: int) -> None:
        fields = [{**each, "type": self.evolved(each["type"], depth - 1)} for each in record["fields"]]
        if fields and self._random.random() < 0.2:
            fields.pop(self._random.randrange(len(fields)))
        if fields and self._random.random() < 0.2:
            field = self._random.choice(fields)
            field["aliases"], field["name"] = [field["name"]], f"{field['name']}_renamed"
        if self._random.random() < 0.3:
            default = {"default": 1} if self._random.random() < 0.7 else {}
            fields.append({"name": "added", "type": "int", **default})
        self._random.shuffle(fields)
        record["fields"] = fields

    def _name(self, letter: str) -> str:
        self._names += 1
        return f"{letter}{self._names}"


def _branch_name(schema: Any) -> str:
    name = schema if isinstance(schema, str) else schema.get("name", schema["type"])
    assert isinstance(name, str)
    return name
