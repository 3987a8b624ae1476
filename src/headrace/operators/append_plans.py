"""Rows with a second plan, which is faster and supports only the output mode `append`.

An operator does not know the output mode of the job that will run it. It returns rows that Spark can emit in every
mode, and registers here how to build the others. A job in the mode `append` replaces them.
"""

from __future__ import annotations

import uuid
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.plan_names import APPEND_ALIAS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PLANS_MAX = 1_000
"""Plans that are known at the same time. Rows whose plan is forgotten are not replaced."""

Build = Callable[[], "DataFrame"]

_plans: OrderedDict[str, Build] = OrderedDict()


def with_append_plan(rows: DataFrame, build: Build) -> DataFrame:
    """The rows, marked in their plan. `build` returns the same columns."""
    id = uuid.uuid4().hex
    _plans[id] = build
    while len(_plans) > PLANS_MAX:
        _plans.popitem(last=False)
    return rows.alias(APPEND_ALIAS + id)


def append_plan(alias: str) -> DataFrame | None:
    """The rows for the mode `append` of a node with this alias; None if there are no others."""
    build = _plans.get(alias.removeprefix(APPEND_ALIAS)) if alias.startswith(APPEND_ALIAS) else None
    return build() if build is not None else None
