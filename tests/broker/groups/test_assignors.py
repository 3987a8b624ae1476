"""The assignors against simple statements of their promises."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.broker.groups.assignors import (
    ASSIGNORS,
    Assignment,
    Candidate,
    TopicIdPartition,
    range_,
    uniform,
)

TOPICS = tuple(uuid.UUID(int=number) for number in range(1, 6))
counts = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 12))


@st.composite
def groups(draw: st.DrawFn, *, same: bool = False, remembers: bool = True) -> list[Candidate]:
    """Members with subscriptions and earlier assignments, also of topics that were deleted."""
    wanted = st.frozensets(st.sampled_from(TOPICS), max_size=5)
    all_want = draw(wanted)
    taken: set[TopicIdPartition] = set()
    candidates = []
    for number in range(draw(st.integers(1, 8))):
        earlier: dict[uuid.UUID, set[int]] = {}
        for topic_id, partition in draw(
            st.sets(st.tuples(st.sampled_from(TOPICS), st.integers(0, 14)), max_size=12 if remembers else 0)
        ):
            place = TopicIdPartition(topic_id, partition)
            if place not in taken:
                taken.add(place)
                earlier.setdefault(topic_id, set()).add(partition)
        candidates.append(
            Candidate(
                member_id=f"m{number}",
                instance_id=draw(st.none() | st.just(f"i{number}")),
                topic_ids=all_want if same else draw(wanted),
                earlier={topic_id: frozenset(partitions) for topic_id, partitions in earlier.items()},
            )
        )
    return candidates


def places(assignment: Assignment) -> set[TopicIdPartition]:
    return {
        TopicIdPartition(topic, partition)
        for topic, partitions in assignment.items()
        for partition in partitions
    }


def check_complete(
    candidates: Sequence[Candidate],
    partition_counts: Mapping[uuid.UUID, int],
    given_out: Mapping[str, Assignment],
) -> None:
    """Every partition of a subscribed topic has one owner, which subscribes to it, and no other is assigned."""
    owners = Counter(place for assignment in given_out.values() for place in places(assignment))
    wanted = {topic for one in candidates for topic in one.topic_ids} & partition_counts.keys()
    assert owners == Counter(
        TopicIdPartition(topic, partition) for topic in wanted for partition in range(partition_counts[topic])
    )
    assert given_out.keys() == {one.member_id for one in candidates}
    for one in candidates:
        assert {place.topic_id for place in places(given_out[one.member_id])} <= one.topic_ids


@settings(max_examples=50)
@given(groups(), counts)
def test_every_partition_is_assigned_to_one_subscriber(
    candidates: list[Candidate], partition_counts: dict[uuid.UUID, int]
) -> None:
    for assign in ASSIGNORS.values():
        check_complete(candidates, partition_counts, assign(candidates, partition_counts))


@settings(max_examples=50)
@given(groups(same=True), counts)
def test_uniform_assigns_equal_shares_of_equal_subscriptions_and_moves_as_few_partitions_as_possible(
    candidates: list[Candidate], partition_counts: dict[uuid.UUID, int]
) -> None:
    given_out = uniform(candidates, partition_counts)

    loads = [len(places(assignment)) for assignment in given_out.values()]
    assert max(loads) - min(loads) <= 1
    valid = [
        {
            place
            for place in places(one.earlier)
            if place.topic_id in one.topic_ids and place.partition < partition_counts.get(place.topic_id, 0)
        }
        for one in candidates
    ]
    kept = sum(
        len(had & places(given_out[one.member_id])) for one, had in zip(candidates, valid, strict=True)
    )
    # The most that any even split can keep: the larger shares go to those who had most.
    shares = sorted(loads, reverse=True)
    had_most = sorted((len(had) for had in valid), reverse=True)
    assert kept == sum(map(min, shares, had_most))


@settings(max_examples=50)
@given(groups(), counts)
def test_uniform_balances_loads_of_different_subscriptions(
    candidates: list[Candidate], partition_counts: dict[uuid.UUID, int]
) -> None:
    given_out = uniform(candidates, partition_counts)
    loads = {member_id: len(places(assignment)) for member_id, assignment in given_out.items()}
    for member_id, assignment in given_out.items():
        for topic_id in assignment:
            for other in candidates:
                if topic_id in other.topic_ids:
                    assert loads[member_id] - loads[other.member_id] <= 1


@settings(max_examples=50)
@given(groups(), counts)
def test_uniform_changes_nothing_when_nothing_has_changed(
    candidates: list[Candidate], partition_counts: dict[uuid.UUID, int]
) -> None:
    first = uniform(candidates, partition_counts)
    again = [
        Candidate(member_id=one.member_id, topic_ids=one.topic_ids, earlier=first[one.member_id])
        for one in candidates
    ]
    second = uniform(again, partition_counts)
    assert second == first
    assert all(second[member_id] is first[member_id] for member_id in first)


@settings(max_examples=50)
@given(groups(remembers=False), counts)
def test_range_assigns_consecutive_partitions_and_the_longer_ranges_to_the_first(
    candidates: list[Candidate], partition_counts: dict[uuid.UUID, int]
) -> None:
    given_out = range_(candidates, partition_counts)
    for topic_id, count in partition_counts.items():
        runs = [sorted(assignment[topic_id]) for assignment in given_out.values() if topic_id in assignment]
        assert all(run == [*range(run[0], run[-1] + 1)] for run in runs)
        by_place = [len(run) for run in sorted(runs)]
        assert by_place == sorted(by_place, reverse=True)
        assert not runs or max(by_place) - min(by_place) <= 1 or len(runs) == count


def test_range_assigns_topics_of_one_size_alike_and_static_members_keep_their_order() -> None:
    both = frozenset(TOPICS[:2])
    partition_counts = dict.fromkeys(TOPICS[:2], 5)
    before = [Candidate(member_id=f"a{n}", instance_id=f"i{n}", topic_ids=both) for n in range(2)]
    given_out = range_(before, partition_counts)
    assert given_out["a0"] == dict.fromkeys(TOPICS[:2], frozenset({0, 1, 2}))
    assert given_out["a1"] == dict.fromkeys(TOPICS[:2], frozenset({3, 4}))

    back = [Candidate(member_id="z", instance_id="i0", topic_ids=both), before[1]]
    assert range_(back, partition_counts)["z"] == given_out["a0"]


def test_uniform_spreads_every_topic_over_the_members() -> None:
    both = frozenset(TOPICS[:2])
    candidates = [Candidate(member_id=f"m{n}", topic_ids=both) for n in range(4)]
    given_out = uniform(candidates, dict.fromkeys(TOPICS[:2], 4))
    assert all({*map(len, assignment.values())} == {1} for assignment in given_out.values())
    assert all(len(assignment) == 2 for assignment in given_out.values())
