"""What a value of fastavro is as a row, written down a second time."""

from __future__ import annotations

import struct
from typing import Any
from uuid import UUID


def expected_row(schema: Any, value: Any) -> Any:
    if isinstance(schema, list):
        return _of_union(schema, value)
    if schema == "float":
        return struct.unpack("f", struct.pack("f", value))[0]
    if not isinstance(schema, dict):
        return value
    match schema["type"]:
        case "record":
            found = {
                each["name"]: expected_row(each["type"], value[each["name"]]) for each in schema["fields"]
            }
            # fastavro takes the JSON of a default for its value.
            return {name: b"\xff" if name == "new_bytes" else each for name, each in found.items()}
        case "array":
            return [expected_row(schema["items"], each) for each in value]
        case "map":
            return [(name, expected_row(schema["values"], each)) for name, each in value.items()]
    if schema.get("logicalType") == "time-millis":
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 1000 + value.microsecond // 1000
    return str(value) if isinstance(value, UUID) else value


def _of_union(schema: list[Any], value: Any) -> Any:
    branches = [each for each in schema if each != "null"]
    if value is None or len(branches) == 1:
        return None if value is None else expected_row(branches[0], value)
    assert branches[:2] == ["long", "string"], "the union of the strategy"
    enum = branches[2]["name"]
    found: dict[str, Any] = dict.fromkeys(["long", "string", enum, "array"])
    if isinstance(value, str):
        found["string" if value.startswith("text ") else enum] = value
    else:
        found["long" if isinstance(value, int) else "array"] = value
    return found
