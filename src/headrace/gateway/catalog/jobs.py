"""What jobs report about themselves in the topic `headrace.jobs`: what they read and what they write. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import Struct

from headrace.gateway.catalog.model import User, UserKind

JOBS_TOPIC = "headrace.jobs"

GROUP_PREFIX = "headrace-job-"
"""Of the group in which a job commits its offsets."""

_VIEW_PREFIX = "view."
_TOPIC = "topic "
_TOPICS_BY_PATTERN = "topics "


class Report(Struct, frozen=True, kw_only=True):
    """Of the record of a job, the fields that the catalogue uses."""

    name: str
    sources: tuple[str, ...] = ()
    target: str = ""
    dead_letter_topics: tuple[str, ...] = ()

    @property
    def user(self) -> User:
        return job_user(self.name)

    @property
    def reads(self) -> set[str]:
        return {each.removeprefix(_TOPIC) for each in self.sources if each.startswith(_TOPIC)}

    @property
    def patterns(self) -> set[str]:
        """Of names of topics, in Java's syntax."""
        prefix = _TOPICS_BY_PATTERN
        return {each.removeprefix(prefix) for each in self.sources if each.startswith(prefix)}

    @property
    def writes(self) -> set[str]:
        own = {self.target.removeprefix(_TOPIC)} if self.target.startswith(_TOPIC) else set()
        return own | set(self.dead_letter_topics)


_REPORT = msgspec.json.Decoder(Report)


def last_reports(values: Iterable[bytes]) -> list[Report]:
    """The last report of each job; what other programs write to the topic is skipped."""
    found: dict[str, Report] = {}
    for value in values:
        try:
            report = _REPORT.decode(value)
        except (msgspec.MsgspecError, RecursionError):
            continue
        found[report.name] = report
    return list(found.values())


def job_user(name: str) -> User:
    """The job of a view is named view.NAME.VERSION."""
    view, _, version = name.removeprefix(_VIEW_PREFIX).rpartition(".")
    if name.startswith(_VIEW_PREFIX) and view and version.isdecimal():
        return User(UserKind.VIEW, view)
    return User(UserKind.JOB, name)
