from __future__ import annotations

import pytest

from headrace.views.query.kinds import Kind, kind_of


@pytest.mark.parametrize(
    ("declared", "kind"),
    [
        ("BOOLEAN", Kind.BOOLEAN),
        ("bigint", Kind.INTEGER),
        ("TINYINT", Kind.INTEGER),
        ("integer", Kind.INTEGER),
        ("HUGEINT", Kind.INTEGER),
        ("real", Kind.REAL),
        ("double precision", Kind.DOUBLE),
        ("numeric(10,2)", Kind.DECIMAL),
        ("DECIMAL TEXT(20,2)", Kind.DECIMAL),
        ("text", Kind.TEXT),
        ("character varying(20)", Kind.TEXT),
        ("VARCHAR", Kind.TEXT),
        ("bytea", Kind.BINARY),
        ("DATE", Kind.DATE),
        ("timestamp with time zone", Kind.TIMESTAMP),
        ("TIMESTAMP_NTZ", Kind.TIMESTAMP_NTZ),
        ("JSON TEXT", Kind.JSON),
        ("jsonb", Kind.JSON),
        ("interval", Kind.OTHER),
        ("", Kind.OTHER),
    ],
)
def test_declared_types_of_stores_are_known(declared: str, kind: Kind) -> None:
    assert kind_of(declared) is kind


def test_same_name_means_another_kind_in_another_database() -> None:
    assert kind_of("TIMESTAMP") is Kind.TIMESTAMP_NTZ
    assert kind_of("TIMESTAMP", timestamp=Kind.TIMESTAMP) is Kind.TIMESTAMP
    assert kind_of("REAL", real=Kind.DOUBLE) is Kind.DOUBLE
