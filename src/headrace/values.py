"""Values: frozen, slotted, keyword-only, declared like dataclasses.

    @value
    class TopicPartition:
        topic: str
        partition: int = 0

A dataclass generates half a dozen methods for each class at import. The broker has some 250 values, most of them
messages, and must answer within a fraction of a second after its start. So here a constructor is generated when it is
first used, and the other methods are shared by all. `dataclasses.fields` and `replace` work as usual.
"""

from __future__ import annotations

from dataclasses import MISSING, FrozenInstanceError, dataclass, field, fields
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def value(cls: type[T]) -> type[T]:
    """Make the class below a value; `__post_init__` may check it."""
    if cls.__doc__ is None:
        cls.__doc__ = cls.__name__  # or a dataclass would work out a signature to put there
    made = dataclass(init=False, repr=False, eq=False, match_args=False, slots=True)(cls)
    for name, method in _METHODS.items():
        if name not in cls.__dict__:
            setattr(made, name, method)
    return made


def _first_init(self: Any, **values: Any) -> None:
    """Stands in for the constructor until one is needed."""
    cls = type(self)
    cls.__init__ = _constructor(cls)
    cls.__init__(self, **values)


def _constructor(cls: type[Any]) -> Any:
    names: dict[str, Any] = {"MISSING": MISSING}
    parameters, body = [], []
    for one in fields(cls):
        # The slot's own setter: the class refuses every other way of setting.
        names[f"set_{one.name}"] = getattr(cls, one.name).__set__
        value_of = one.name
        if one.default is not MISSING:
            names[f"default_{one.name}"] = one.default
            parameters.append(f"{one.name}=default_{one.name}")
        elif one.default_factory is not MISSING:
            names[f"make_{one.name}"] = one.default_factory
            parameters.append(f"{one.name}=MISSING")
            value_of = f"make_{one.name}() if {one.name} is MISSING else {one.name}"
        else:
            parameters.append(one.name)
        body.append(f"    set_{one.name}(self, {value_of})")
    if hasattr(cls, "__post_init__"):
        body.append("    self.__post_init__()")
    signature = f"def __init__(self, *, {', '.join(parameters)}):" if parameters else "def __init__(self):"
    exec("\n".join([signature, *(body or ["    pass"])]), names)
    return names["__init__"]


def _values(self: Any) -> tuple[Any, ...]:
    return tuple(getattr(self, one.name) for one in fields(self))


def _repr(self: Any) -> str:
    inside = ", ".join(f"{one.name}={getattr(self, one.name)!r}" for one in fields(self) if one.repr)
    return f"{type(self).__qualname__}({inside})"


def _eq(self: Any, other: object) -> Any:
    return _values(self) == _values(other) if type(self) is type(other) else NotImplemented


def _hash(self: Any) -> int:
    return hash(_values(self))


def _setattr(self: Any, name: str, value: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _delattr(self: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _reduce(self: Any) -> tuple[Any, ...]:
    """Copies and pickles are made anew from the fields: there is no other way to set them."""
    return _remake, (type(self), {one.name: getattr(self, one.name) for one in fields(self)})


def _remake(cls: type[T], values: dict[str, Any]) -> T:
    return cls(**values)


_METHODS = {
    "__init__": _first_init,
    "__repr__": _repr,
    "__eq__": _eq,
    "__hash__": _hash,
    "__setattr__": _setattr,
    "__delattr__": _delattr,
    "__reduce__": _reduce,
}
