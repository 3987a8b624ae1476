"""The `Topic` sink against the contract: written by the driver, and by tasks."""

from __future__ import annotations

import json
from decimal import Decimal
from functools import partial

from pyspark.sql.types import StructType

from headrace.pipeline.sinks.topic import Topic
from tests.compatibility.topic_contents import read_to_end
from tests.contract.sink_contract import Lab, Row, SinkCase, as_python, sink_case

# Spark's text of intervals is its own.
LEFT_OUT = frozenset({"INTERVAL DAY TO SECOND"})
ALWAYS_BY_TASKS = 0


@sink_case("topic")
def by_driver(lab: Lab) -> SinkCase:
    return _case(lab, lab.fixture("bootstrap"), Topic(lab.name, key="id").driver_rows_max)


@sink_case("topic-by-tasks")
def by_tasks(lab: Lab) -> SinkCase:
    return _case(lab, lab.fixture("bootstrap"), ALWAYS_BY_TASKS)


def _case(lab: Lab, bootstrap: str, driver_rows_max: int) -> SinkCase:
    return SinkCase(
        sink=lambda: Topic(lab.name, key="id", bootstrap=bootstrap, driver_rows_max=driver_rows_max),
        read=partial(rows_in_topic, bootstrap, lab.name),
        is_keyed=False,
        is_atomic=driver_rows_max > ALWAYS_BY_TASKS,
        left_out=LEFT_OUT,
    )


def rows_in_topic(bootstrap: str, topic: str, schema: StructType) -> list[Row]:
    messages = read_to_end(bootstrap, topic, isolation_level="read_committed")
    # Decimals keep all their digits, which Python's float would not.
    rows = [json.loads(message.value(), parse_float=Decimal) for message in messages]
    return [
        {field.name: as_python(each.get(field.name), field.dataType) for field in schema} for each in rows
    ]
