"""Which rows of a view a reader wants. Conditions are SQL that every store can evaluate: no subqueries, no statements.

`query.text` parses what a user writes, `query.sql` renders a selection for a database, and `query.rows` evaluates it in
Python, for stores without SQL. They agree on the result.
"""

from __future__ import annotations

from msgspec import Struct

ROWS_MAX = 10_000
"""Of one page. A reader keeps a page in memory, and a store may hold a snapshot while it reads one."""

PAGE_ROWS = 100
"""Of a page, if the selection has no LIMIT."""


class Selection(Struct, frozen=True, kw_only=True):
    """The parsed text that follows the name of a view: `WHERE city = 'Oslo' ORDER BY users DESC LIMIT 20`."""

    where: str = ""
    """A condition in the language of `query.text`, checked against the columns of the view, with all names quoted."""
    order_by: tuple[tuple[str, bool], ...] = ()
    """Columns, each with whether it is descending, and nulls last. `query.text` puts the key at the end, so that pages
    are stable."""
    limit: int = PAGE_ROWS
    offset: int = 0
