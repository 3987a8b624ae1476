"""Views in folders: full-text indexes, Delta tables and Parquet files."""

from __future__ import annotations

import os
from typing import Any

import duckdb
from deltalake import DeltaTable

from headrace.pipeline.sinks.search_reader import SearchReader
from tests.contract.view_store_contract import Lab, ViewStoreCase, view_store_case


@view_store_case("search")
def search(lab: Lab) -> ViewStoreCase:
    def rows_by_name(name: str) -> list[dict[str, Any]]:
        served = os.path.realpath(lab.folder / "search" / name)
        return [dict(hit.row) for hit in SearchReader(served).search("*", limit=100)]

    return ViewStoreCase(kind="search", rows_by_name=rows_by_name)


@view_store_case("lake")
def lake(lab: Lab) -> ViewStoreCase:
    def rows_by_name(name: str) -> list[dict[str, Any]]:
        served = os.path.realpath(lab.folder / "delta" / name)
        rows: list[dict[str, Any]] = DeltaTable(served).to_pyarrow_table().to_pylist()
        return rows

    return ViewStoreCase(kind="lake", rows_by_name=rows_by_name)


@view_store_case("lake-address")
def lake_at_an_address(lab: Lab) -> ViewStoreCase:
    (lab.folder / "bucket").mkdir()
    base = f"file://{lab.folder}/bucket"

    def rows_by_name(name: str) -> list[dict[str, Any]]:
        (pointer,) = DeltaTable(f"{base}/{name}").to_pyarrow_table().to_pylist()
        rows: list[dict[str, Any]] = DeltaTable(f"{base}/{pointer['served']}").to_pyarrow_table().to_pylist()
        return rows

    return ViewStoreCase(kind="lake", at=base, rows_by_name=rows_by_name)


@view_store_case("parquet")
def parquet(lab: Lab) -> ViewStoreCase:
    def rows_by_name(name: str) -> list[dict[str, Any]]:
        served = os.path.realpath(lab.folder / "parquet" / name)
        with duckdb.connect() as connection:
            found = connection.sql(
                "SELECT * FROM read_parquet(?, hive_partitioning = true)", params=[f"{served}/**/*.parquet"]
            )
            rows: list[dict[str, Any]] = found.to_arrow_table().to_pylist()
            return rows

    return ViewStoreCase(kind="parquet", options={"partition_by": "city"}, rows_by_name=rows_by_name)
