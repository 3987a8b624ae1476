"""What is committed: never past a record that is not done, and enough that a restart repeats little."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.webhooks.outgoing.progress import (
    METADATA_CHARACTERS_MAX,
    OFFSETS_MAX,
    Mark,
    PartitionProgress,
    Progress,
    Resume,
    decoded,
)

PLACE = ("orders", 0)


def read_all(progress: PartitionProgress, offsets: range) -> None:
    for offset in offsets:
        progress.read(offset)


def test_commit_stays_at_the_first_record_that_is_not_done() -> None:
    progress = PartitionProgress(120, Resume())
    read_all(progress, range(120, 150))
    for offset in range(120, 150):
        if offset not in (120, 127):
            progress.done(offset)
    mark = progress.mark()
    assert mark == Mark(offset=120, metadata="1:96:0,7")
    resume = decoded(mark.offset, mark.metadata)
    assert [offset for offset in range(120, 160) if not resume.is_done(offset)] == [
        120,
        127,
        *range(150, 160),
    ]


def test_without_pending_records_the_position_is_committed() -> None:
    progress = PartitionProgress(0, Resume())
    progress.read(0)
    progress.skip(1)
    progress.done(0)
    assert progress.mark() == Mark(offset=2, metadata="")


def test_pending_records_of_an_earlier_process_stay_pending_until_they_are_read() -> None:
    first = PartitionProgress(0, Resume())
    read_all(first, range(100))
    for offset in set(range(100)) - {10, 90}:
        first.done(offset)
    mark = first.mark()

    second = PartitionProgress(mark.offset, decoded(mark.offset, mark.metadata))
    second.read(10)
    second.done(10)
    again = second.mark()
    assert again.offset == 90
    assert decoded(again.offset, again.metadata).is_done(50)


def test_more_pending_records_than_fit_are_repeated_and_none_is_skipped() -> None:
    progress = PartitionProgress(0, Resume())
    read_all(progress, range(10 * OFFSETS_MAX))
    for offset in range(0, 10 * OFFSETS_MAX, 2):
        progress.done(offset)
    mark = progress.mark()
    assert len(mark.metadata) <= METADATA_CHARACTERS_MAX
    resume = decoded(mark.offset, mark.metadata)
    assert not any(resume.is_done(offset) for offset in range(1, 10 * OFFSETS_MAX, 2))
    assert resume.is_done(2)


@given(st.integers(0, 2**40), st.lists(st.integers(0, 10**6), min_size=1, max_size=2_000), st.data())
def test_no_pending_record_is_ever_done_after_a_restart(
    start: int, gaps: list[int], data: st.DataObject
) -> None:
    offsets, offset = [], start
    for gap in gaps:
        offset += 1 + gap
        offsets.append(offset)
    progress = PartitionProgress(start, Resume())
    for each in offsets:
        progress.read(each)
    done = set(data.draw(st.lists(st.sampled_from(offsets))))
    for each in done:
        progress.done(each)
    mark = progress.mark()
    assert len(mark.metadata) <= METADATA_CHARACTERS_MAX
    pending = [each for each in offsets if each not in done]
    assert mark.offset == (pending[0] if pending else offsets[-1] + 1)
    resume = decoded(mark.offset, mark.metadata)
    assert not any(resume.is_done(each) for each in pending)
    assert not resume.is_done(offsets[-1] + 1)


@given(st.text(max_size=50))
def test_metadata_of_another_program_means_that_nothing_is_done(text: str) -> None:
    resume = decoded(5, text)
    if not text.startswith("1:"):
        assert resume == Resume()


def test_only_changes_are_committed() -> None:
    progress = Progress()
    progress.start(PLACE, 10, "")
    assert progress.changed() == {}
    progress.read(PLACE, 10)
    progress.done(PLACE, 10)
    marks = progress.changed()
    assert marks == {PLACE: Mark(offset=11, metadata="")}
    progress.committed(marks)
    assert progress.changed() == {}


def test_record_of_a_lost_partition_changes_nothing() -> None:
    progress = Progress()
    progress.start(PLACE, 10, "")
    progress.read(PLACE, 10)
    progress.forget([PLACE])
    progress.done(PLACE, 10)
    progress.committed({PLACE: Mark(offset=11, metadata="")})
    assert progress.changed() == {}


def test_topic_that_was_created_again_has_nothing_that_is_done() -> None:
    """Its offsets begin again, below what an earlier process has delivered of the old one."""
    progress = PartitionProgress(100, Resume(pending=frozenset({100}), end=200))
    assert not progress.is_done(100)
    progress.read(100)
    assert progress.is_done(150)
    progress.skip(150)
    assert not progress.is_done(0)
    progress.read(0)
    assert not progress.is_done(151)
