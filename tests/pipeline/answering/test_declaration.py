"""The declaration of answers."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from msgspec import Struct

from headrace.pipeline import BadJob, answers
from headrace.pipeline.answering.declaration import StateQuestion, declared_answers, state_answers
from headrace.questions.errors import BadQuestion


class Url(Struct):
    url: str


@answers("count", operator="tumbling", payload=Url)
class Count:
    def partial(self, state: pa.Table, question: Url) -> int:
        return int(state.num_rows)

    def combine(self, partials: list[int], question: Url) -> dict[str, Any]:
        return {"url": question.url, "rows": sum(partials)}


def test_decorated_class_is_an_answer() -> None:
    count, of_state = declared_answers("job", [Count])
    assert (count.question, count.operator, of_state.question) == ("count", "tumbling", "state.job")
    assert count.combine([1, 2], count.decode(b'{"url": "/a"}')) == {"url": "/a", "rows": 3}


@pytest.mark.parametrize(
    ("payload", "problem"),
    [
        (b"", "truncated"),
        (b"{", "truncated"),
        (b"[]", "Expected `object`, got `array`"),
        (b"{}", "missing required field `url`"),
        (b'{"url": 7}', r"Expected `str`, got `int` - at `\$.url`"),
        (b"\xff\xfe", "malformed"),
    ],
)
def test_wrong_payload_is_named(payload: bytes, problem: str) -> None:
    count, _ = declared_answers("job", [Count])
    with pytest.raises(BadQuestion, match=f"the payload of 'count' is wrong.*{problem}"):
        count.decode(payload)


def test_wrong_declaration_is_rejected() -> None:
    class Nothing: ...

    with pytest.raises(BadJob, match="is not an answer"):
        declared_answers("job", [Nothing])
    with pytest.raises(BadJob, match="answers 'count' twice"):
        declared_answers("job", [Count, Count])
    with pytest.raises(BadJob, match="no method partial"):
        answers("nothing")(Nothing)  # type: ignore[type-var]  # the mistake
    with pytest.raises(BadJob, match="for the state of jobs"):
        answers("state.other")
    with pytest.raises(BadQuestion, match="can't be the name"):
        answers("a b")


ROWS = pa.table({"bucket": [1, 1, 1], "url": ["/a", "/b", None], "n": [1, 2, 3], "x": [0.5, 1.0, 2.0]})


@pytest.mark.parametrize(
    ("key", "found"),
    [
        ({"url": "/a"}, [1]),
        ({"url": None}, [3]),
        ({"n": 2}, [2]),
        ({"n": "2"}, [2]),
        ({"n": "two"}, None),
        ({"url": 7}, None),
        ({"url": "/a", "n": 2}, None),
        ({}, [1, 2, 3]),
    ],
)
def test_rows_of_the_state_are_found_by_key(key: dict[str, Any], found: list[int] | None) -> None:
    rows = state_answers("job").partial(ROWS, StateQuestion(key=key))
    assert (None if rows is None else rows["n"].to_pylist()) == found


def test_rows_of_the_state_are_limited() -> None:
    of_state = state_answers("job")
    answer = of_state.combine([ROWS, ROWS], StateQuestion(limit=4))
    assert (answer["count"], len(answer["rows"])) == (6, 4)
    assert of_state.combine([], StateQuestion()) == {"count": 0, "rows": []}
    assert of_state.operator_for(of_state.decode(b'{"operator": "join"}')) == "join"


def test_unknown_column_of_the_state_is_named() -> None:
    with pytest.raises(BadQuestion, match="no column 'user'") as rejected:
        state_answers("job").partial(ROWS, StateQuestion(key={"user": "ann"}))
    assert rejected.value.hint == "there are: bucket, url, n, x"
