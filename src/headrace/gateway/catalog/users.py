"""Who writes and reads each topic, as far as topics, groups and reports say. Pure.

Kafka does not know who wrote a record: a program that only produces, such as a service, is not known.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import re2
from msgspec import Struct

from headrace.dead_letters import TOPIC_PREFIX
from headrace.gateway.catalog.jobs import GROUP_PREFIX, Report, job_user
from headrace.gateway.catalog.model import User, UserKind

WEBHOOK_PREFIX = "headrace-webhook-"
"""Of the group of a webhook out, whether it sends a topic or a queue."""

CAPTURE_PREFIX = "headrace.cdc."
"""Of the topic in which a capture keeps its positions."""


class Users(Struct, frozen=True, kw_only=True):
    writers: Mapping[str, Sequence[User]]
    """By topic, in order."""
    readers: Mapping[str, Sequence[User]]


def users_of(
    topics: Iterable[str],
    *,
    groups: Mapping[str, Iterable[str]],
    queues: Mapping[str, Iterable[str]],
    reports: Iterable[Report],
    written: Mapping[User, Iterable[str]],
    read: Mapping[User, Iterable[str]],
) -> Users:
    """`groups` and `queues` have the topics of each; `written` and `read` those of what is defined on this machine."""
    names = set(topics)
    writers: dict[str, set[User]] = defaultdict(set)
    readers: dict[str, set[User]] = defaultdict(set)
    known: dict[str, User] = {}
    for kind, members in ((UserKind.GROUP, groups), (UserKind.QUEUE, queues)):
        for group, read_topics in members.items():
            user = _group_user(kind, group)
            known[group if user.kind is UserKind.WEBHOOK_OUT else user.name] = user
            for topic in read_topics:
                readers[topic].add(user)
    for report in reports:
        for topic in report.reads.union(*(_matching(each, names) for each in report.patterns)):
            readers[topic].add(report.user)
        for topic in report.writes:
            writers[topic].add(report.user)
        known[report.user.name] = report.user
    for defined, places in ((written, writers), (read, readers)):
        for user, of_user in defined.items():
            for topic in of_user:
                places[topic].add(user)
    for topic, user in _captured(names):
        writers[topic].add(user)
    for topic in names:
        name = topic.removeprefix(TOPIC_PREFIX)
        if name != topic and name in known:
            writers[topic].add(known[name])
    return Users(writers=_sorted(writers), readers=_sorted(readers))


def _group_user(kind: UserKind, group: str) -> User:
    if group.startswith(WEBHOOK_PREFIX):
        return User(UserKind.WEBHOOK_OUT, group.removeprefix(WEBHOOK_PREFIX))
    if kind is UserKind.GROUP and group.startswith(GROUP_PREFIX):
        return job_user(group.removeprefix(GROUP_PREFIX))
    return User(kind, group)


def _captured(topics: set[str]) -> Iterable[tuple[str, User]]:
    """The topics of a capture begin with its name."""
    captures = {each.removeprefix(CAPTURE_PREFIX) for each in topics if each.startswith(CAPTURE_PREFIX)}
    for topic in topics:
        name = topic.partition(".")[0]
        if name in captures:
            yield topic, User(UserKind.CAPTURE, name)


def _matching(pattern: str, topics: set[str]) -> set[str]:
    """None if Java has more syntax for patterns than RE2."""
    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)
    except re2.error:
        return set()
    return {each for each in topics if compiled.fullmatch(each)}


def _sorted(found: Mapping[str, set[User]]) -> dict[str, Sequence[User]]:
    return {topic: sorted(users) for topic, users in found.items()}
