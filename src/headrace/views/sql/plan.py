"""What a query is made of. Every node is a changelog of rows. The names of its columns are unique in the plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, field

from headrace.views.topic_columns import TopicColumns

How = Literal["inner", "left", "full"]


class Output(Struct, frozen=True, kw_only=True):
    """A column that is computed. `sql` is an expression on the columns of the input."""

    name: str
    sql: str
    shown: str
    """what a user knows it by"""


class Scan(Struct, kw_only=True):
    """The rows of a topic. Only columns that are used are read."""

    topic: TopicColumns
    names: dict[str, str]
    """the names in the plan by column"""
    used: set[str] = field(default_factory=set)
    """columns"""

    @property
    def key(self) -> tuple[str, ...]:
        """in the plan"""
        return tuple(self.names[each] for each in self.topic.key)


class Project(Struct, frozen=True, kw_only=True):
    input: Node
    outputs: tuple[Output, ...]
    where: Output | None = None


class Join(Struct, frozen=True, kw_only=True):
    left: Node
    right: Node
    how: How
    pairs: tuple[tuple[str, str], ...]
    shown: str


class Group(Struct, frozen=True, kw_only=True):
    """`aggregates` are texts for GroupChanges, by name. Without any, the node is the distinct rows."""

    input: Node
    by: tuple[str, ...]
    aggregates: Mapping[str, str]


class Top(Struct, frozen=True, kw_only=True):
    input: Node
    count: int
    by: tuple[str, ...]
    order: Mapping[str, str]
    """directions by column, as in `desc nulls last`"""
    rank: str | None = None


class Union(Struct, frozen=True, kw_only=True):
    """All rows of all inputs. Each has these columns."""

    inputs: tuple[Node, ...]
    columns: tuple[str, ...]


Node = Scan | Project | Join | Group | Top | Union


class Plan(Struct, frozen=True, kw_only=True):
    """A view as its job computes it."""

    view: str
    root: Node
    columns: Mapping[str, str]
    """the names in the plan by column of the view"""
    key: tuple[str, ...]
    """columns of the view"""
    is_stateless: bool
    """each record of the one topic is the change of one row of the view"""
    is_unique: bool
    """whether the key distinguishes the rows; otherwise the view shows one of several"""
    shown: Mapping[str, str]
    """what a user knows the columns of the plan by"""
    notes: tuple[str, ...] = ()
    """what the user should know"""
