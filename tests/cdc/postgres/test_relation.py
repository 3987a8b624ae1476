from __future__ import annotations

from headrace.cdc.change import UNAVAILABLE
from headrace.cdc.postgres.catalog import CatalogColumn, CatalogTable
from headrace.cdc.postgres.pgoutput import UNCHANGED, Relation, RelationColumn
from headrace.cdc.postgres.relation import Described, describe_catalog, describe_relation
from headrace.cdc.postgres.types import TypeInfo

TYPES = {23: TypeInfo(oid=23, name="int4"), 25: TypeInfo(oid=25, name="text")}
KNOWN = CatalogTable(
    oid=7,
    schema="public",
    name="t",
    is_partitioned=False,
    replica_identity="d",
    has_key_identity=True,
    is_readable=True,
    is_schema_usable=True,
    is_owned=True,
    rows_total=None,
    # The order of the index, not of the columns.
    key=("b", "a"),
    columns=(
        CatalogColumn(name="a", type_oid=23, type_modifier=-1, is_required=True),
        CatalogColumn(name="b", type_oid=23, type_modifier=-1, is_required=True),
        CatalogColumn(name="c", type_oid=25, type_modifier=-1, is_required=False),
    ),
)


def described(*, identity: str = "d", keys: str = "ab", known: CatalogTable | None = KNOWN) -> Described:
    relation = Relation(
        oid=7,
        schema="public",
        name="t",
        replica_identity=identity,
        columns=tuple(
            RelationColumn(name=name, type_oid=oid, type_modifier=-1, is_key=name in keys)
            for name, oid in (("a", 23), ("b", 23), ("c", 25))
        ),
    )
    return describe_relation("shop", relation, TYPES, known=known, previous=None)


def test_stream_and_snapshot_describe_a_table_alike() -> None:
    assert described() == describe_catalog("shop", KNOWN, TYPES)
    assert described().table.key == ("b", "a")


def test_key_of_a_table_that_logs_whole_rows_is_its_primary_key() -> None:
    assert described(identity="f", keys="abc").table.key == ("b", "a")


def test_key_of_a_table_that_was_dropped_since_is_that_of_the_message() -> None:
    assert described(known=None).table.key == ("a", "b")


def test_unchanged_value_is_unavailable_and_never_null() -> None:
    assert described().row(["1", None, UNCHANGED]) == {"a": 1, "b": None, "c": UNAVAILABLE}


def test_unchanged_value_is_taken_from_the_old_row_if_that_is_known() -> None:
    table = described()
    assert table.filled(["1", "2", UNCHANGED], ["1", "1", "large"], True) == ["1", "2", "large"]
    # An old key has null in all other columns: that is not their value.
    assert table.filled(["1", UNCHANGED, UNCHANGED], ["1", "1", None], False) == ["1", "1", UNCHANGED]


def test_key_row_has_only_the_key() -> None:
    assert described().key_row(["1", "2", None]) == {"b": 2, "a": 1}
