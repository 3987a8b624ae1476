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
) -> Users:
    """`groups` and `queues` have the topics of each."""
    names = set(topics)
    writers: dict[str, set[User]] = defaultdict(set)
    readers: dict[str, set[User]] = defaultdict(set)
    for group, read in groups.items():
        for topic in read:
            readers[topic].add(_group_user(group))
    for queue, read in queues.items():
        for topic in read:
            readers[topic].add(User(UserKind.QUEUE, queue))
    for report in reports:
        for topic in report.reads.union(*(_matching(each, names) for each in report.patterns)):
            readers[topic].add(report.user)
        for topic in report.writes:
            writers[topic].add(report.user)
    for topic, user in _captured(names):
        writers[topic].add(user)
    known = {each.name: each for found in readers.values() for each in found}
    for topic in names:
        name = topic.removeprefix(TOPIC_PREFIX)
        if name != topic and name in known:
            writers[topic].add(known[name])
    return Users(writers=_sorted(writers), readers=_sorted(readers))


def _group_user(group: str) -> User:
    name = group.removeprefix(GROUP_PREFIX)
    return User(UserKind.GROUP, group) if name == group else job_user(name)


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
