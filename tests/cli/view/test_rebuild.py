"""What `headrace view rebuild` prints. A rebuild on the command line is in `test_run`, its steps in `tests/views`."""

from __future__ import annotations

from headrace.cli.view.rebuild import words_of
from headrace.cli.view.results import RebuiltView


def rebuilt(rows: int | None, before: int | None, compared: int = 0) -> str:
    return words_of(RebuiltView(name="users", version=2, rows=rows, rows_before=before, compared=compared))


def test_result_shows_rows_before_and_after_and_what_was_compared() -> None:
    assert rebuilt(None, None) == "view users: version 2 is served"
    assert rebuilt(1000, 1000, 400) == "view users: version 2 is served, 1,000 rows, 400 rows compared"
    assert rebuilt(5, 1000) == "view users: version 2 is served, 5 rows (before: 1,000)"
