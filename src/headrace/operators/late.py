"""Late rows: rows that arrive after the watermark has passed the end of their window."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.operators.operator import BadOperator, Duration, duration_us, require_kind
from headrace.topic_names import InvalidTopicName, check_topic_name


@dataclass(frozen=True, slots=True, kw_only=True)
class DropLate:
    """Late rows are dropped and counted: the progress of the job shows them as `late rows`.

    alarm_above   the fraction of late rows in a micro-batch above which a warning is logged; None for never
    """

    alarm_above: float | None = None

    def __post_init__(self) -> None:
        hint = "set a fraction from 0 to 1, such as 0.01"
        require_kind(
            self.alarm_above, float | int | None, operator="DropLate", field="alarm_above", hint=hint
        )
        if self.alarm_above is not None and not 0 <= self.alarm_above <= 1:
            raise BadOperator("DropLate", "alarm_above", f"is {self.alarm_above}", hint=hint)


@dataclass(frozen=True, slots=True)
class SideOutput:
    """Late rows are counted and written to a topic, once for every window for which they are late.

        op.Tumbling("1 minute", by="url", late=op.SideOutput("clicks.late"))

    The value of the message is the row as JSON, and its key is the key of the row's record. Its headers have the
    operator, window, watermark, reason and origin (`__dlq.errors.*`, as for dead letters). The Job writes the messages
    exactly once, with the fence of the batch. A stream without a Job fails, unless a folder for late rows is set.

    topic   the topic of the late rows; the dead-letter topic of the job, `dlq.JOB`, by default
    """

    topic: str = ""

    def __post_init__(self) -> None:
        require_kind(
            self.topic, str, operator="SideOutput", field="topic", hint='name a topic, such as "clicks.late"'
        )
        if self.topic == "":
            return
        try:
            check_topic_name(self.topic)
        except InvalidTopicName as error:
            raise BadOperator(
                "SideOutput", "topic", f"is {self.topic!r}, which is not a valid topic name", hint=error.hint
            ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Correct:
    """Late rows correct the result of their window, which is emitted again.

    within   the allowed lateness: how long after its end a window accepts late rows; its state is stored that long
    beyond   where rows that are later than that go; by default they are dropped and counted
    """

    within: Duration
    beyond: SideOutput | None = None

    def __post_init__(self) -> None:
        _ = self.within_us
        require_kind(
            self.beyond,
            SideOutput | None,
            operator="Correct",
            field="beyond",
            hint='set a side output: beyond=op.SideOutput("clicks.late")',
        )

    @property
    def within_us(self) -> int:
        return duration_us(self.within, operator="Correct", field="within")


Late = DropLate | Correct | SideOutput


def require_late(given: object, *, operator: str) -> None:
    """Raise if `late` of a window is another value. A duration is meant as the allowed lateness."""
    within = repr(given) if isinstance(given, str) else "'1 hour'"
    require_kind(
        given,
        Late | None,
        operator=operator,
        field="late",
        problem=", which is none of DropLate, SideOutput and Correct",
        hint=f"set late=op.Correct(within={within}) to correct results within this time",
    )


def side_output(late: Late | None) -> SideOutput | None:
    """The side output of late rows that no window accepts."""
    if isinstance(late, Correct):
        return late.beyond
    return late if isinstance(late, SideOutput) else None
