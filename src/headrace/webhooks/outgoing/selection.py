"""Which records of a source a target gets."""

from __future__ import annotations

from headrace.conditions import NotComparable, parse_condition
from headrace.webhooks.outgoing.message import Outgoing, is_redriven_for, json_object
from headrace.webhooks.outgoing.target import Target


class Selection:
    def __init__(self, target: Target) -> None:
        self._name = target.name
        self._condition = parse_condition(target.filter) if target.filter else None

    def wants(self, message: Outgoing) -> bool:
        """Whether to deliver it. If its filter can't be evaluated, the message gets this as its problem.

        A record without a value matches no filter.
        """
        if message.headers and is_redriven_for(message.headers) not in (None, self._name):
            return False
        if self._condition is None:
            return True
        if message.value is None:
            return False
        record = json_object(message.value)
        if record is None:
            message.problem = "the filter can't be evaluated: the value is not a JSON object"
            return True
        try:
            return self._condition.holds(record)
        except NotComparable as error:
            message.problem = f"the filter can't be evaluated: {error.message}"
            return True
