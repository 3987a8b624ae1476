"""The declaration of an answer: what each partition of a job's state contributes, and how the parts are combined."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import msgspec
import pyarrow as pa
from msgspec import Struct

from headrace.errors import HeadraceError
from headrace.pipeline.errors import BadJob
from headrace.questions.errors import BadQuestion
from headrace.questions.records import STATE_PREFIX, check_question

_DECLARED = "_headrace_answers"
"""The attribute of a class that `@answers` has decorated. Type checkers see the class, so it stays one."""

STATE_ROWS = 100
"""Rows of an answer from the state, if the question has no limit."""

STATE_ROWS_MAX = 10_000
"""The answer is one record."""


AnswererT = TypeVar("AnswererT", bound="Answerer")


class Answerer(Protocol):
    """What `@answers` decorates."""

    def partial(self, state: pa.Table, question: Any) -> Any:
        """What the state of one partition contributes; None for nothing."""

    def combine(self, partials: list[Any], question: Any) -> Any:
        """The answer, which JSON must have, from the contributions of all partitions."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Answers:
    """An answer that a job gives, as `@answers` declares it."""

    question: str
    partial: Callable[[pa.Table, Any], Any]
    combine: Callable[[list[Any], Any], Any]
    operator: str | None = None
    payload: Any = dict[str, Any]
    """The type of the payload, which msgspec checks."""
    operator_of: Callable[[Any], str | None] | None = None
    """For a question that names the operator itself."""

    def decode(self, payload: bytes) -> Any:
        try:
            return msgspec.json.decode(payload, type=self.payload)
        except (msgspec.DecodeError, RecursionError) as error:
            shown = payload[:100].decode(errors="replace")
            raise BadQuestion(
                f"the payload of {self.question!r} is wrong: {error}", hint=f"it is: {shown}"
            ) from error

    def operator_for(self, question: Any) -> str | None:
        return self.operator_of(question) if self.operator_of is not None else self.operator


def answers(
    question: str, *, operator: str | None = None, payload: Any = None
) -> Callable[[type[AnswererT]], type[AnswererT]]:
    """Declare the answer to a question, from the state of a job.

        @answers("reach", operator="join")
        class Reach:
            def partial(self, state, question):
                posts = state.filter(pc.equal(state["url"], question["url"]))
                return set(posts["author"].to_pylist()) or None

            def combine(self, partials, question):
                return {"authors": len(set().union(*partials))}

        Job("posts", rows, sink, answers=[Reach]).start()

    `partial` is called for each partition with its rows of state, an Arrow table in the columns of `headrace job
    state`. Partitions without rows are omitted.

    operator   the stateful operator, by its name in `headrace job state`; not needed if the job has only one
    payload    the type of the payload, such as a msgspec Struct; by default any JSON object
    """
    check_question(question)
    if question.startswith(STATE_PREFIX):
        raise BadJob(
            f"a question can't be called {question!r}: names with {STATE_PREFIX} are for the state of jobs",
            hint="choose another name",
        )

    def declare(kind: type[AnswererT]) -> type[AnswererT]:
        for method in ("partial", "combine"):
            if not callable(getattr(kind, method, None)):
                raise BadJob(
                    f"the answer to {question!r} has no method {method}",
                    hint="def partial(self, state, question) and def combine(self, partials, question)",
                )
        answerer = kind()
        declared = Answers(
            question=question,
            partial=answerer.partial,
            combine=answerer.combine,
            operator=operator,
            payload=payload or dict[str, Any],
        )
        setattr(kind, _DECLARED, declared)
        return kind

    return declare


class StateQuestion(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The payload of the question `state.JOB`."""

    operator: str | None = None
    key: dict[str, str | int | float | bool | None] = {}
    """The key columns, by name; all rows without one."""
    limit: int = STATE_ROWS


def state_answers(job: str) -> Answers:
    """The answer to `state.JOB`: rows of the state of an operator, by key."""

    def partial(state: pa.Table, question: StateQuestion) -> pa.Table | None:
        from headrace.operators.state.inspect import rows_of_values

        try:
            found = rows_of_values(state, question.key)
        except HeadraceError as error:
            raise BadQuestion(error.message, hint=error.hint) from error
        return found if found.num_rows else None

    def combine(partials: list[pa.Table], question: StateQuestion) -> dict[str, Any]:
        count = sum(each.num_rows for each in partials)
        limit = min(question.limit, STATE_ROWS_MAX)
        rows = pa.concat_tables(partials, promote_options="default").slice(0, limit) if partials else None
        return {"count": count, "rows": [] if rows is None else rows.to_pylist()}

    return Answers(
        question=STATE_PREFIX + job,
        partial=partial,
        combine=combine,
        payload=StateQuestion,
        operator_of=lambda question: question.operator,
    )


def declared_answers(job: str, kinds: Sequence[type[Any]]) -> list[Answers]:
    """What the decorated classes declare, each question once; and the answer to `state.JOB`."""
    found: dict[str, Answers] = {}
    for kind in kinds:
        declared = getattr(kind, _DECLARED, None)
        if not isinstance(declared, Answers):
            raise BadJob(
                f"job {job}: {kind!r} is not an answer", hint='decorate the class: @answers("reach")'
            )
        if declared.question in found:
            raise BadJob(f"job {job} answers {declared.question!r} twice", hint="remove one of the two")
        found[declared.question] = declared
    return [*found.values(), state_answers(job)]
