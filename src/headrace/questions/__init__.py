"""Questions to running jobs, through topics: the answer is gathered from the state of all partitions.

    from headrace.questions import Questions

    with Questions() as questions:
        print(questions.ask("reach", {"url": "https://example.org"}).value)

The job declares what it answers: `headrace.pipeline.answers`.

records  topics, headers and values on the wire
client   the asker
http     the same over HTTP
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.exports import lazy_exports

if TYPE_CHECKING:
    from headrace.questions.client import Questions, ask
    from headrace.questions.errors import (
        AnswerTimeout,
        BadQuestion,
        NoAnswerer,
        Overloaded,
        QuestionFailed,
    )
    from headrace.questions.records import Answer
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "client": ("Questions", "ask"),
            "errors": ("AnswerTimeout", "BadQuestion", "NoAnswerer", "Overloaded", "QuestionFailed"),
            "records": ("Answer",),
        },
    )

__all__ = [
    "Answer",
    "AnswerTimeout",
    "BadQuestion",
    "NoAnswerer",
    "Overloaded",
    "QuestionFailed",
    "Questions",
    "ask",
]
