"""The memory of members: a limit for each, and one for all groups."""

from __future__ import annotations

from headrace.broker.groups.consumer_state import ConsumerGroup, ConsumerMember, MemberChange
from headrace.broker.groups.member_memory import (
    NAME_OVERHEAD_BYTES,
    MemberMemory,
    size_of_group,
    size_of_names,
    size_of_protocols,
)
from headrace.broker.groups.state import Group, Member
from tests.broker.groups.simulation import offers


def classic(metadata: bytes, assignment: bytes = b"") -> Group:
    member = Member(
        member_id="m",
        instance_id=None,
        client_id="c",
        client_host="/h",
        session_timeout_ms=1,
        rebalance_timeout_ms=1,
        protocols=offers("range", metadata=metadata),
        assignment=assignment,
    )
    return Group(group_id="g").put(member)


def test_size_counts_what_clients_send() -> None:
    offer = len("range") + NAME_OVERHEAD_BYTES + 10
    assert size_of_protocols(offers("range", metadata=bytes(10))) == offer
    assert size_of_group(classic(bytes(10), assignment=bytes(7))) == offer + 7
    consumers = ConsumerGroup("g")
    consumers.apply(
        MemberChange(member_id="m", before=None, after=ConsumerMember(member_id="m", topics=("a", "bc")))
    )
    assert size_of_group(consumers) == size_of_names(("a", "bc")) == 3 + 2 * NAME_OVERHEAD_BYTES


def test_member_over_its_limit_is_rejected() -> None:
    memory = MemberMemory(member_bytes_max=100, groups_bytes_max=1_000, groups=[])
    assert memory.admits("g", 100)
    assert not memory.admits("g", 101)


def test_memory_of_removed_members_is_free_when_the_limit_is_reached() -> None:
    groups = [classic(bytes(500))]
    used = size_of_group(groups[0])
    memory = MemberMemory(member_bytes_max=1_000, groups_bytes_max=1_000, groups=groups)
    assert memory.admits("g", used)
    assert memory.admits("g", 1_000 - used), "of a member that never joined"
    assert memory.admits("g", 1_000 - used), "the members are measured again"
    assert not memory.admits("g", 1_000 - used + 1)
    groups.clear()
    assert memory.admits("g", 1_000)
