"""Values of programs in conditions."""

from __future__ import annotations

import math
from datetime import date
from decimal import Decimal

from headrace.conditions.expression import Literal
from headrace.views.errors import BadView


def literal_of(column: str, value: object) -> Literal:
    """A value from a program, which may be anything."""
    is_finite = not isinstance(value, float | Decimal) or math.isfinite(value)
    if not isinstance(value, str | int | float | bytes | Decimal | date) or not is_finite:
        raise BadView(
            f"column {column} can't be compared with {value!r}", hint="give text, a number, a truth or a time"
        )
    return Literal(value)
