"""Conditions in SQL on rows and records: `level = 'ERROR' AND request.ms > 100`.

expression  a condition as a tree, and as text
text        text as a tree; it may come from anyone
evaluation  the value of a tree for a row in memory
condition   a condition on records
"""

from headrace.conditions.condition import Condition, field_at, parse_condition
from headrace.conditions.errors import BadCondition, NotComparable

__all__ = ["BadCondition", "Condition", "NotComparable", "field_at", "parse_condition"]
