"""Names of the objects of an archived segment."""

from __future__ import annotations

from headrace.log.archive.object_names import base_offset_of, object_names, object_prefix


def test_manifest_is_deleted_first() -> None:
    names = object_names(object_prefix("id", 3), 42)
    assert names[0] == "id/3/00000000000000000042.manifest"
    assert names[-1] == "id/3/00000000000000000042.log"
    assert {base_offset_of(name) for name in names} == {42}
    assert base_offset_of("id/3/readme.txt") is None
