"""What the code counts on where a value is declared: a frozen, keyword-only Struct."""

from __future__ import annotations

import copy
import pickle

import pytest
from msgspec import Struct, field
from msgspec.structs import replace


class Point(Struct, frozen=True, kw_only=True):
    x: int
    y: int = 2
    tags: list[str] = field(default_factory=list)


class Positive(Struct, frozen=True, kw_only=True):
    number: int

    def __post_init__(self) -> None:
        if self.number <= 0:
            raise ValueError(self.number)


class Nothing(Struct, frozen=True, kw_only=True):
    pass


def test_value_is_created_from_keywords_and_defaults() -> None:
    point = Point(x=1)
    assert (point.x, point.y, point.tags) == (1, 2, [])
    assert Point(x=1, y=5).y == 5


def test_factory_creates_a_default_for_each_value() -> None:
    assert Point(x=1).tags is not Point(x=1).tags


@pytest.mark.parametrize("arguments", [{}, {"y": 1}, {"x": 1, "z": 2}])
def test_missing_and_unknown_fields_are_rejected(arguments: dict[str, int]) -> None:
    with pytest.raises(TypeError):
        Point(**arguments)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        Point(1)  # type: ignore[call-arg]


def test_value_cannot_be_changed() -> None:
    point = Point(x=1)
    with pytest.raises(AttributeError):
        point.x = 2  # type: ignore[misc]
    with pytest.raises(AttributeError):
        del point.x
    with pytest.raises(AttributeError):
        point.other = 2  # type: ignore[attr-defined]
    assert not hasattr(point, "__dict__")


def test_equal_values_are_equal_and_hash_alike() -> None:
    assert Positive(number=1) == Positive(number=1)
    assert Positive(number=1) != Positive(number=2)
    assert Positive(number=1) != Nothing()  # type: ignore[comparison-overlap]
    assert hash(Positive(number=3)) == hash(Positive(number=3))
    assert Nothing() == Nothing()


def test_repr_has_the_fields() -> None:
    assert repr(Point(x=1)) == "Point(x=1, y=2, tags=[])"


def test_post_init_checks_the_value() -> None:
    with pytest.raises(ValueError):
        Positive(number=0)


def test_value_is_replaced_copied_and_pickled() -> None:
    point = Point(x=1, y=3)
    assert replace(point, x=9) == Point(x=9, y=3)
    assert copy.copy(point) == copy.deepcopy(point) == point
    assert pickle.loads(pickle.dumps(point)) == point
