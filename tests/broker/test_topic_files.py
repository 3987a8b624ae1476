"""The files of topics: what was saved is read, and what was changed is not trusted."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest

from headrace.broker.topic_files import FILE_STEM_CHARACTERS_MAX, ArchiveDeletions, SavedTopic, TopicFiles
from headrace.errors import HeadraceError
from headrace.log.filesystem import DiskFileSystem


def files_in(folder: Path) -> TopicFiles:
    made = TopicFiles(DiskFileSystem(), str(folder))
    assert [*made.read_all()] == []
    return made


def saved(name: str = "a", **changes: bool) -> SavedTopic:
    return SavedTopic(
        name=name, id=uuid.UUID(int=1), partitions=3, configs={"cleanup.policy": "compact"}, **changes
    )


@pytest.mark.parametrize(
    "topic",
    [saved(), saved(is_deleting=True), saved("x" * (FILE_STEM_CHARACTERS_MAX + 9))],
    ids=["usual", "deleting", "long name"],
)
def test_topic_is_read_as_it_was_written_until_it_is_removed(tmp_path: Path, topic: SavedTopic) -> None:
    files = files_in(tmp_path)
    files.write(topic)
    assert [*files.read_all()] == [topic]
    files.remove(topic.name, topic.id)
    assert [*files.read_all()] == []


@pytest.mark.parametrize(
    "change", [{"partitions": 2}, {"configs": {}}, {"name": "b"}, {"id": str(uuid.UUID(int=2))}]
)
def test_file_that_was_changed_is_rejected(tmp_path: Path, change: dict[str, object]) -> None:
    files = files_in(tmp_path)
    files.write(saved())
    path = tmp_path / "metadata" / "topics" / "a.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(HeadraceError, match=r"a\.json is damaged"):
        [*files.read_all()]


def test_file_without_a_checksum_is_a_change_that_is_intended(tmp_path: Path) -> None:
    files = files_in(tmp_path)
    files.write(saved())
    path = tmp_path / "metadata" / "topics" / "a.json"
    fields = {**json.loads(path.read_text()), "partitions": 5}
    del fields["checksum"]
    path.write_text(json.dumps(fields))
    assert [topic.partitions for topic in files.read_all()] == [5]
    path.rename(path.with_name("b.json"))
    with pytest.raises(HeadraceError, match="it is the file of the topic 'a'"):
        [*files.read_all()]


def test_folder_with_records_of_an_unknown_partition_is_rejected(tmp_path: Path) -> None:
    files = files_in(tmp_path)
    (tmp_path / "a-2").mkdir()
    segment = tmp_path / "a-2" / f"{0:020}.log"
    segment.touch()
    files.reject_unknown_folders({"a": 1})
    segment.write_bytes(b"records")
    files.reject_unknown_folders({"a": 3})
    with pytest.raises(HeadraceError, match="a-2 holds records") as error:
        files.reject_unknown_folders({"a": 2})
    assert '"partitions": 3' in error.value.hint


def test_deletion_is_pending_until_it_is_done_also_after_a_restart(tmp_path: Path) -> None:
    first, second = uuid.UUID(int=1), uuid.UUID(int=2)
    deletions = ArchiveDeletions(DiskFileSystem(), str(tmp_path))
    assert deletions.pending() == []
    deletions.note(first, "a")
    deletions.note(second, "b")
    deletions.done(str(first))
    assert ArchiveDeletions(DiskFileSystem(), str(tmp_path)).pending() == [str(second)]


def test_file_that_a_crash_left_unfinished_is_no_deletion(tmp_path: Path) -> None:
    files = DiskFileSystem()
    deletions = ArchiveDeletions(files, str(tmp_path))
    deletions.note(uuid.UUID(int=1), "a")
    (tmp_path / "metadata" / "archive-deletions" / f"{uuid.UUID(int=2)}.tmp").touch()
    assert deletions.pending() == [str(uuid.UUID(int=1))]
