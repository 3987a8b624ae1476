"""Structures of messages: frozen, slotted, keyword-only values, like dataclasses declared so.

A dataclass generates half a dozen methods for each class at import. A broker declares some 150 structures and must
answer within a fraction of a second after its start, so here a constructor is generated when it is first used, and the
other methods are shared by all.
"""

from __future__ import annotations

from dataclasses import MISSING, FrozenInstanceError, dataclass, fields
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True)
def struct(cls: type[T]) -> type[T]:
    """Declare a structure inside a message."""
    made = dataclass(init=False, repr=False, eq=False, match_args=False, slots=True)(cls)
    for method in (_first_init, _repr, _eq, _hash, _setattr, _delattr):
        setattr(made, _METHOD_NAMES[method.__name__], method)
    return made


_METHOD_NAMES = {
    "_first_init": "__init__",
    "_repr": "__repr__",
    "_eq": "__eq__",
    "_hash": "__hash__",
    "_setattr": "__setattr__",
    "_delattr": "__delattr__",
}


def _first_init(self: Any, **values: Any) -> None:
    """Stands in for the constructor until one is needed."""
    cls = type(self)
    cls.__init__ = _constructor(cls)
    cls.__init__(self, **values)


def _constructor(cls: type[Any]) -> Any:
    names: dict[str, Any] = {}
    parameters, body = [], []
    for field in fields(cls):
        # The slot's own setter: the class refuses every other way of setting.
        names[f"set_{field.name}"] = getattr(cls, field.name).__set__
        has_default = field.default is not MISSING
        if has_default:
            names[f"default_{field.name}"] = field.default
        parameters.append(f"{field.name}=default_{field.name}" if has_default else field.name)
        body.append(f"    set_{field.name}(self, {field.name})")
    signature = f"def __init__(self, *, {', '.join(parameters)}):" if parameters else "def __init__(self):"
    exec("\n".join([signature, *(body or ["    pass"])]), names)
    return names["__init__"]


def _values(self: Any) -> tuple[Any, ...]:
    return tuple(getattr(self, name) for name in self.__slots__)


def _repr(self: Any) -> str:
    inside = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
    return f"{type(self).__name__}({inside})"


def _eq(self: Any, other: object) -> Any:
    return _values(self) == _values(other) if type(self) is type(other) else NotImplemented


def _hash(self: Any) -> int:
    return hash(_values(self))


def _setattr(self: Any, name: str, value: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _delattr(self: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")
