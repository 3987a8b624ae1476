"""Questions and answers on the wire: topics, headers and JSON.

A question is a record of `headrace.questions.NAME`, its value is the payload. The answer is a record of
`headrace.answers.NAME` with the same correlation id. The job commits the offsets of questions to the group
`headrace-answers`, with a heartbeat as metadata: the asker reads there whether the job runs. Any Kafka has all of this.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

from headrace.errors import HeadraceError
from headrace.questions.errors import BadQuestion, Overloaded, QuestionFailed
from headrace.topic_names import check_topic_name

QUESTIONS, ANSWERS = "headrace.questions.", "headrace.answers."
"""Prefixes of topics."""

STATE_PREFIX = "state."
"""`state.JOB` is the question for rows of the state of a job, by key."""

GROUP = "headrace-answers"
"""No consumer joins it: it has the offset of every topic of questions, and a heartbeat beside it."""

CORRELATION_HEADER = "headrace-correlation-id"
EXPIRES_HEADER = "headrace-expires-ms"
"""When the asker stops waiting, in milliseconds since the epoch by its clock."""

_EXPIRES = re.compile(rb"[0-9]{1,15}")
"""Any producer can write this header, and Python does not convert thousands of digits."""

TOPIC_CONFIG = {"retention.ms": "3600000", "cleanup.policy": "delete"}
"""Of both topics. Nobody waits for an hour."""

RECORD_BYTES_MAX = 1_000_000
"""Of a question or an answer: brokers accept a little more than a megabyte by default."""

MESSAGE_BYTES_MAX = RECORD_BYTES_MAX + 10_000
"""For producers: the record with its topic, its headers and its framing."""

ErrorKind = Literal["bad-question", "overloaded", "failed"]
_ERRORS: Mapping[ErrorKind, type[QuestionFailed]] = {
    "bad-question": BadQuestion,
    "overloaded": Overloaded,
    "failed": QuestionFailed,
}


class Answer(Struct, frozen=True, kw_only=True):
    """The answer of a job, gathered from the state after its last committed batch."""

    question: str
    value: Any
    job: str
    batch_id: int | None
    """The last committed batch; None if the job has not committed one."""
    partitions: int
    """How many partitions have state."""
    missing: tuple[int, ...] = ()
    """The partitions that are not part of the answer."""
    reasons: tuple[str, ...] = ()
    """Why they are missing."""

    @property
    def is_partial(self) -> bool:
        return bool(self.missing)


class ErrorReply(Struct, frozen=True, kw_only=True):
    """An answer that says why there is none."""

    kind: ErrorKind
    message: str
    hint: str = ""

    @classmethod
    def of(cls, error: HeadraceError) -> ErrorReply:
        kinds: dict[type, ErrorKind] = {known: kind for kind, known in _ERRORS.items()}
        return cls(kind=kinds.get(type(error), "failed"), message=error.message, hint=error.hint)

    def to_error(self) -> QuestionFailed:
        return _ERRORS[self.kind](self.message, hint=self.hint)


class Reply(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The value of an answer's record: one of the two."""

    answer: Answer | None = None
    error: ErrorReply | None = None

    def to_json(self) -> bytes:
        return msgspec.json.encode(self, enc_hook=_plain)

    @classmethod
    def from_json(cls, value: bytes) -> Reply:
        return msgspec.json.decode(value, type=cls)


class Heartbeat(Struct, frozen=True, kw_only=True):
    """The metadata of the committed offset of a topic of questions."""

    job: str
    at_ms: int
    is_running: bool = True

    def to_text(self) -> str:
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_text(cls, text: str | None) -> Heartbeat | None:
        """None if another program committed the offset."""
        try:
            return msgspec.json.decode(text or "", type=cls)
        except msgspec.DecodeError:
            return None


class Asked(Struct, frozen=True, kw_only=True):
    """A question as the job gets it."""

    correlation_id: str
    expires_ms: int
    payload: bytes


def check_question(name: str) -> None:
    """Raise BadQuestion if no question can have this name."""
    if not re.fullmatch(r"[a-zA-Z0-9][a-zA-Z0-9._-]*", name):
        raise BadQuestion(
            f"{name!r} can't be the name of a question", hint="use ASCII letters, digits, '.', '_' and '-'"
        )
    check_topic_name(QUESTIONS + name)


Headers = dict[str, str | bytes | None] | list[tuple[str, str | bytes | None]]
"""As the client has them."""


def question_headers(correlation_id: str, expires_ms: int) -> Headers:
    return [(CORRELATION_HEADER, correlation_id.encode()), (EXPIRES_HEADER, str(expires_ms).encode())]


def asked(headers: Headers | None, value: bytes | None) -> Asked | None:
    """The question of a record; None for a record that nobody can wait for."""
    found = dict(headers or ())
    correlation_id, expires = correlation_id_of(headers), found.get(EXPIRES_HEADER)
    if correlation_id is None or not isinstance(expires, bytes) or not _EXPIRES.fullmatch(expires):
        return None
    return Asked(correlation_id=correlation_id, expires_ms=int(expires), payload=value or b"")


def correlation_id_of(headers: Headers | None) -> str | None:
    found = dict(headers or ()).get(CORRELATION_HEADER)
    return found.decode(errors="replace") if isinstance(found, bytes) else None


def _plain(value: Any) -> Any:
    """Values of Arrow and NumPy, which know their Python form; others as text."""
    for name in ("to_pylist", "tolist"):
        if hasattr(value, name):
            return getattr(value, name)()
    return str(value)
