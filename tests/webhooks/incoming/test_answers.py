"""Answers: which of them end the attempts of a sender."""

from __future__ import annotations

from headrace.webhooks.incoming import answers
from headrace.webhooks.incoming.answers import Answer

ALL = [each for each in vars(answers).values() if isinstance(each, Answer)]


def test_answer_is_done_or_says_when_to_try_again_or_is_final() -> None:
    assert {each.status for each in ALL if each.is_done} == {200, 202}
    assert {each.status for each in ALL if each.may_succeed_later} == {429, 503}
    assert {each.status for each in ALL if not (each.is_done or each.may_succeed_later)} == {401, 413}


def test_answer_to_a_wrong_signature_gives_nothing_away() -> None:
    assert answers.NOT_ACCEPTED.text == "not accepted"
