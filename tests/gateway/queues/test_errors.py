from __future__ import annotations

from headrace.gateway.queues import errors
from headrace.gateway.queues.errors import NotAcknowledged


def test_only_an_acknowledgement_without_an_answer_may_succeed_later() -> None:
    kinds = [
        each
        for each in vars(errors).values()
        if isinstance(each, type) and each.__module__ == errors.__name__
    ]
    assert len(kinds) == 6
    assert [each for each in kinds if each.may_succeed_later] == [NotAcknowledged]  # type: ignore[attr-defined]
