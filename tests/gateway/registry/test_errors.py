"""The errors of the registry."""

from __future__ import annotations

from headrace.errors import HeadraceError
from headrace.gateway.registry import errors


def test_each_error_has_a_code_of_its_own_that_begins_with_its_status() -> None:
    found = [
        errors.subject_not_found("s"),
        errors.version_not_found(1),
        errors.schema_not_found(),
        errors.subject_soft_deleted("s"),
        errors.subject_not_soft_deleted("s"),
        errors.version_soft_deleted("s", 1),
        errors.version_not_soft_deleted("s", 1),
        errors.no_subject_compatibility("s"),
        errors.no_subject_mode("s"),
        errors.incompatible("m"),
        errors.invalid_schema("m"),
        errors.invalid_version("0"),
        errors.invalid_compatibility(),
        errors.invalid_mode(),
        errors.not_permitted("m"),
        errors.referenced("m"),
        errors.store_failed(HeadraceError("m")),
    ]
    assert all(str(each.code).startswith(str(each.status)) for each in found)
    assert len({each.code for each in found}) == len(found)
