"""What becomes of rows that come when the watermark has already passed the end of their window."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.operators.operator import BadOperator, Duration, duration_us
from headrace.topic_names import InvalidTopicName, check_topic_name


@dataclass(frozen=True, slots=True, kw_only=True)
class DropLate:
    """They are left out, and counted: the job's progress tells how many, as `late rows`.

    alarm_above   the share of late rows in a micro-batch above which a warning is logged; None for never
    """

    alarm_above: float | None = None

    def __post_init__(self) -> None:
        if self.alarm_above is not None and not 0 <= self.alarm_above <= 1:
            raise BadOperator(
                "DropLate",
                "alarm_above",
                f"is {self.alarm_above}",
                hint="a share between 0 and 1, such as 0.01",
            )


@dataclass(frozen=True, slots=True)
class SideOutput:
    """Late rows are counted and written to a topic, once for every window that they are too late for.

        op.Tumbling("1 minute", by="url", late=op.SideOutput("clicks.late"))

    The value of the message is the row as JSON, its key that of the record that the row came from. Its headers state
    operator, window, watermark, reason and origin (`__dlq.errors.*`, as those of dead letters). The Job writes them
    exactly once, with the batch's fence. A stream without a Job fails, unless a folder for late rows is set.

    topic   the topic of the late rows; the dead-letter topic of the job, `dlq.JOB`, by default
    """

    topic: str = ""

    def __post_init__(self) -> None:
        if self.topic == "":
            return
        try:
            check_topic_name(self.topic)
        except InvalidTopicName as error:
            raise BadOperator(
                "SideOutput", "topic", f"is {self.topic!r}, which can't be a topic's name", hint=error.hint
            ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Correct:
    """They are worked in, and the window is published again, for as long as `within` after its end.

    Its state is kept that long. Rows that are later still are left out and counted; with `beyond`, they are also kept.
    """

    within: Duration
    beyond: SideOutput | None = None

    def __post_init__(self) -> None:
        _ = self.within_us

    @property
    def within_us(self) -> int:
        return duration_us(self.within, operator="Correct", field="within")


Late = DropLate | Correct | SideOutput


def side_output(late: Late | None) -> SideOutput | None:
    """Where rows go that nothing else is done with."""
    if isinstance(late, Correct):
        return late.beyond
    return late if isinstance(late, SideOutput) else None
