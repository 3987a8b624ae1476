"""Definitions of webhooks: private files, written atomically, read again when they change."""

from __future__ import annotations

import stat
import threading
from pathlib import Path

import msgspec
import pytest

from headrace.webhooks.catalog import Catalog, Definition, check_name
from headrace.webhooks.errors import BadWebhook, DamagedDefinition, NoSuchWebhook
from headrace.webhooks.secrets import Secret


class Sample(Definition, frozen=True, kw_only=True):
    topic: str
    secrets: tuple[Secret, ...] = ()
    count: int = 0

    def check(self) -> None:
        if not self.topic:
            raise BadWebhook("the topic is empty", hint="name one")


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog[Sample]:
    return Catalog(tmp_path, "in", Sample)


def test_definition_is_read_back_as_it_was_added(catalog: Catalog[Sample]) -> None:
    sample = Sample(name="github", topic="pushes", secrets=(Secret(text="s3cret", valid_until_ms=5),))
    catalog.add(sample)
    assert catalog.get("github") == sample
    assert catalog.names() == ["github"]
    assert catalog.all() == [sample]


def test_files_with_secrets_are_readable_by_their_owner_only(catalog: Catalog[Sample]) -> None:
    catalog.add(Sample(name="github", topic="pushes", secrets=(Secret(text="s3cret"),)))
    catalog.replace(Sample(name="github", topic="other", secrets=(Secret(text="s3cret"),)))
    assert stat.S_IMODE((catalog.folder / "github.json").stat().st_mode) == 0o600
    assert stat.S_IMODE(catalog.folder.stat().st_mode) == 0o700


def test_empty_folder_has_no_definitions(catalog: Catalog[Sample]) -> None:
    assert catalog.names() == []
    assert not catalog.look().definitions


def test_second_definition_of_a_name_is_rejected(catalog: Catalog[Sample]) -> None:
    catalog.add(Sample(name="github", topic="pushes"))
    with pytest.raises(BadWebhook, match="there is a webhook in github already"):
        catalog.add(Sample(name="github", topic="other"))
    assert catalog.get("github").topic == "pushes"


def test_unknown_name_gets_the_nearest_one_as_hint(catalog: Catalog[Sample]) -> None:
    catalog.add(Sample(name="github", topic="pushes"))
    for use in (catalog.get, catalog.remove):
        with pytest.raises(NoSuchWebhook) as caught:
            use("githup")
        assert caught.value.hint == "did you mean github?"


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../x", "a/b", "a\\b", ".hidden", "A", "é", "a b", "a\n", "-a", "a" * 101, "%2e"]
)
def test_name_that_could_leave_its_folder_or_is_no_part_of_a_url_is_rejected(
    name: str, catalog: Catalog[Sample]
) -> None:
    with pytest.raises(BadWebhook, match="can't be the name of a webhook"):
        check_name(name)
    with pytest.raises(BadWebhook):
        catalog.add(Sample(name=name, topic="t"))
    with pytest.raises(NoSuchWebhook):
        catalog.get(name)


def test_removed_definition_is_unknown(catalog: Catalog[Sample]) -> None:
    catalog.add(Sample(name="github", topic="pushes"))
    catalog.remove("github")
    assert catalog.names() == []
    with pytest.raises(NoSuchWebhook):
        catalog.get("github")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b'{"name": "github"}',
        b'{"name": "github", "topic": 5}',
        b'{"name": "github", "topic": ""}',
        b'{"name": "gitlab", "topic": "t"}',
        b'{"name": "github", "topic": "t", "newer": 1}',
    ],
)
def test_damaged_file_is_an_error_with_its_path_and_a_remedy(
    content: bytes, catalog: Catalog[Sample]
) -> None:
    catalog.add(Sample(name="github", topic="pushes"))
    (catalog.folder / "github.json").write_bytes(content)
    with pytest.raises(DamagedDefinition, match=r"github\.json is damaged") as caught:
        catalog.get("github")
    assert caught.value.hint
    catalog.remove("github")
    assert catalog.names() == []


def test_error_about_a_damaged_file_shows_no_secret(catalog: Catalog[Sample]) -> None:
    catalog.add(Sample(name="github", topic="pushes"))
    text = '{"name": "github", "topic": "t", "secrets": [{"text": "hunter2", "valid_until_ms": "hunter2"}]}'
    (catalog.folder / "github.json").write_text(text)
    with pytest.raises(DamagedDefinition) as caught:
        catalog.get("github")
    assert "hunter2" not in str(caught.value)


def test_definition_that_does_not_fit_together_is_not_written(catalog: Catalog[Sample]) -> None:
    with pytest.raises(BadWebhook, match="the topic is empty"):
        catalog.add(Sample(name="github", topic=""))
    assert catalog.names() == []


def test_look_has_every_change_of_another_process(catalog: Catalog[Sample], tmp_path: Path) -> None:
    other = Catalog(tmp_path, "in", Sample)
    other.add(Sample(name="a", topic="one"))
    other.add(Sample(name="b", topic="one"))
    first = catalog.look()
    assert {k: v.topic for k, v in first.definitions.items()} == {"a": "one", "b": "one"}
    other.replace(Sample(name="a", topic="two"))
    other.remove("b")
    second = catalog.look()
    assert {k: v.topic for k, v in second.definitions.items()} == {"a": "two"}


def test_look_reads_an_unchanged_file_once(catalog: Catalog[Sample]) -> None:
    catalog.add(Sample(name="a", topic="one"))
    first = catalog.look().definitions["a"]
    assert catalog.look().definitions["a"] is first


def test_look_has_the_others_beside_a_damaged_file(catalog: Catalog[Sample]) -> None:
    catalog.add(Sample(name="a", topic="one"))
    catalog.add(Sample(name="b", topic="one"))
    (catalog.folder / "b.json").write_text("{")
    found = catalog.look()
    assert set(found.definitions) == {"a"}
    assert "b.json is damaged" in found.damaged["b"].message
    assert "b.json is damaged" in catalog.look().damaged["b"].message


def test_changes_at_the_same_time_are_all_made(catalog: Catalog[Sample], tmp_path: Path) -> None:
    catalog.add(Sample(name="a", topic="one"))

    def add_some() -> None:
        own = Catalog(tmp_path, "in", Sample)
        for _ in range(20):
            own.change("a", lambda old: msgspec.structs.replace(old, count=old.count + 1))

    threads = [threading.Thread(target=add_some) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert catalog.get("a").count == 80


def test_find_has_every_change_and_reads_an_unchanged_file_once(
    catalog: Catalog[Sample], tmp_path: Path
) -> None:
    other = Catalog(tmp_path, "in", Sample)
    assert catalog.find("a") is None
    other.add(Sample(name="a", topic="one"))
    first = catalog.find("a")
    assert first is not None
    assert catalog.find("a") is first
    other.replace(Sample(name="a", topic="two"))
    second = catalog.find("a")
    assert second is not None
    assert second.topic == "two"
    (catalog.folder / "a.json").write_text("{")
    for _ in range(2):
        with pytest.raises(DamagedDefinition):
            catalog.find("a")
    other.remove("a")
    assert catalog.find("a") is None


@pytest.mark.parametrize("name", ["", "..", "../in/a", "a/../a", ".lock", "A", "a" * 5_000, "a\x00"])
def test_name_that_is_no_name_is_not_found(name: str, catalog: Catalog[Sample]) -> None:
    catalog.add(Sample(name="a", topic="one"))
    assert catalog.find(name) is None
