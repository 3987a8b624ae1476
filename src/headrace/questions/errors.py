"""Why a question has no answer."""

from __future__ import annotations

from headrace.errors import HeadraceError


class QuestionFailed(HeadraceError):
    """The job could not answer the question. The other errors of this module are special cases of it."""


class BadQuestion(QuestionFailed):
    """The payload is wrong; the same question fails again."""


class Overloaded(QuestionFailed):
    """The job has more questions than it may have at a time. Ask again later."""


class NoAnswerer(QuestionFailed):
    """No job that runs answers the question. Nothing was sent."""


class AnswerTimeout(QuestionFailed):
    """No answer arrived in time. The job skips the question if it has not answered it yet."""
