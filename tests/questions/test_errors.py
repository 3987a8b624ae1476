"""Errors of questions."""

from __future__ import annotations

import pytest

from headrace.errors import HeadraceError
from headrace.questions.errors import AnswerTimeout, BadQuestion, NoAnswerer, Overloaded, QuestionFailed


@pytest.mark.parametrize("kind", [AnswerTimeout, BadQuestion, NoAnswerer, Overloaded])
def test_every_error_is_a_failed_question_with_a_hint(kind: type[QuestionFailed]) -> None:
    error = kind("no answer", hint="ask again")
    assert isinstance(error, HeadraceError)
    assert str(error) == "no answer (ask again)"
