"""Who gets which partitions in a share group."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from headrace.broker.groups.share import MEMBERS_PER_PARTITION_MIN, Subscribers


def subscribers(count: int) -> Subscribers:
    made = Subscribers()
    for number in range(count):
        made.add(f"m{number}")
    return made


@pytest.mark.parametrize("members", range(1, 40))
def test_partition_has_a_second_member_if_there_is_one_and_shares_are_even(members: int) -> None:
    for partitions in range(1, 40):
        group = subscribers(members)
        given = [group.partitions_of(f"m{number}", partitions) for number in range(members)]
        assert all(len(set(one)) == len(one) for one in given), "a partition twice for the same member"
        loads = {len(one) for one in given}
        assert min(loads) > 0
        assert max(loads) - min(loads) <= 1
        wanted = min(members, max(MEMBERS_PER_PARTITION_MIN, math.ceil(members / partitions)))
        members_of = Counter(partition for one in given for partition in one)
        assert members_of == dict.fromkeys(range(partitions), wanted)


def test_member_that_leaves_is_replaced_in_its_partitions() -> None:
    group = subscribers(5)
    group.remove("m1")
    members_of = Counter(
        partition for name in ("m0", "m2", "m3", "m4") for partition in group.partitions_of(name, 7)
    )
    assert members_of == dict.fromkeys(range(7), 2)
