"""From the SQL of a view to its rows, kept up to date.

dialect       Spark's SQL with names in double quotes too, and places in the text
plan          what a query is made of: scans, joins, groups, projections
scope         which column a name means
relations     FROM and JOIN
grouping      GROUP BY and aggregates
query         SELECT as a whole
planning      a definition as a plan; without Spark
failures      expressions that may fail, without stopping a batch
scan          a topic as a changelog of its rows
rows          a plan as a DataFrame
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.exports import lazy_exports

if TYPE_CHECKING:
    from headrace.views.sql.plan import Plan
    from headrace.views.sql.planning import parse
    from headrace.views.sql.rows import rows_of

__all__ = ["Plan", "parse", "rows_of"]

__getattr__, __dir__ = lazy_exports(__name__, {"planning": ["parse"], "plan": ["Plan"], "rows": ["rows_of"]})
