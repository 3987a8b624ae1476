"""A capture's ordinary connection: what the catalog says of a table that is read, or that the stream names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headrace.cdc.postgres.catalog import CatalogTable, all_types, is_captured, table_by_oid
from headrace.cdc.postgres.connection import open_connection
from headrace.cdc.postgres.pgoutput import Relation
from headrace.cdc.postgres.relation import Described, describe_catalog, describe_relation


class Session:
    def __init__(self, address: str, name: str, patterns: Sequence[str]) -> None:
        self.address = address
        self.name = name
        """of the slot and of the publication"""
        self.control = open_connection(address)
        self.database = self.control.info.dbname
        self._patterns = patterns
        self._types = all_types(self.control)

    def described(self, table: CatalogTable) -> Described:
        self._know(column.type_oid for column in table.columns)
        return describe_catalog(self.database, table, self._types)

    def described_relation(self, relation: Relation, previous: Described | None) -> Described | None:
        """None if the table is not captured, because it was renamed."""
        if not is_captured(relation.schema, relation.name, self._patterns):
            return None
        self._know(column.type_oid for column in relation.columns)
        known = table_by_oid(self.control, relation.oid)
        return describe_relation(self.database, relation, self._types, known=known, previous=previous)

    def _know(self, oids: Iterable[int]) -> None:
        if not all(oid in self._types for oid in oids):
            self._types = all_types(self.control)

    def close(self) -> None:
        self.control.close()
