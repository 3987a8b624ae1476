"""The nodes of a plan."""

from __future__ import annotations

from headrace.views.sql.plan import Scan
from tests.views.sql.tables import table


def test_key_of_a_scan_has_the_names_of_the_plan() -> None:
    topic = table("items", "order_id line", "line INT, order_id BIGINT")
    scan = Scan(topic=topic, names={"line": "i_line", "order_id": "i_order_id"})
    assert scan.key == ("i_order_id", "i_line")
