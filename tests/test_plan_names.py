"""Names in plans and checkpoints: they stay the same, because running jobs depend on them."""

from __future__ import annotations

import pytest

from headrace import plan_names
from headrace.plan_names import OPERATOR_ALIAS, OperatorMark

MARK = OperatorMark(
    operator="tumbling", kept_for='Tumbling(by="ürl")', owner="tumbling 1f2e3d4c", late_topic=None
)


@pytest.mark.parametrize("late_topic", [None, "", "clicks.late"])
def test_a_mark_survives_its_alias(late_topic: str | None) -> None:
    mark = OperatorMark(operator="session", kept_for="a, `b`", owner="session 0", late_topic=late_topic)
    assert OperatorMark.from_alias(mark.to_alias()) == mark


def test_the_alias_of_an_operator_stays_the_same() -> None:
    assert MARK.to_alias() == (
        OPERATOR_ALIAS + '{"operator": "tumbling", "kept_for": "Tumbling(by=\\"ürl\\")", '
        '"owner": "tumbling 1f2e3d4c", "late_topic": null}'
    )


def test_names_belong_to_headrace_or_to_spark_and_are_distinct() -> None:
    names = [
        getattr(plan_names, name)
        for name in dir(plan_names)
        if name.endswith(("_METRIC", "_ALIAS", "_FOLDER", "EVENT_TIME", "_WATERMARK"))
    ]
    assert len(set(names)) == len(names) == 14
    assert all(name.startswith("headrace.") for name in names)
    assert plan_names.WATERMARK_DELAY == "spark.watermarkDelayMs"
