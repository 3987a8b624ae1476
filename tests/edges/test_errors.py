from __future__ import annotations

from headrace.edges.errors import BadEdge
from headrace.errors import HeadraceError


def test_bad_edge_is_an_error_for_users() -> None:
    assert issubclass(BadEdge, HeadraceError)
