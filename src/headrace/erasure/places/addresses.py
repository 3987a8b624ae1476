"""Places by address, as the command line has them."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qsl, urlencode

from headrace.erasure.errors import BadErasure
from headrace.erasure.place import Place
from headrace.redaction import redacted

FORMS = (
    "sqlite:///FILE?table=T&column=C, postgresql://USER@HOST/DATABASE?table=T&column=C, "
    "redis://HOST:PORT/0?prefix=P, search:///FOLDER?column=C, opensearch://HOST:PORT?index=I&column=C, "
    "delta:///FOLDER?column=C, parquet:///FOLDER?column=C or view://NAME"
)


def place_at(address: str, *, data_dir: Path | None = None) -> Place:
    """The place at an address: `sqlite:///data/views.db?table=users&column=id`; three slashes for a relative path.

    `data_dir` is the folder of the views; that of the settings by default.
    """
    base, _, query = address.partition("?")
    options = dict(parse_qsl(query))
    scheme, separator, rest = base.partition("://")
    path = Path(rest.removeprefix("/"))
    match scheme if separator else "":
        case "sqlite":
            from headrace.erasure.places.sqlite_table import SqliteTable

            return SqliteTable(path, _option(address, options, "table"), _option(address, options, "column"))
        case "postgresql" | "postgres":
            from headrace.erasure.places.postgres_table import PostgresTable

            table, column = _option(address, options, "table"), _option(address, options, "column")
            return PostgresTable(_address(base, options), table, column)
        case "redis" | "rediss" | "unix":
            from headrace.erasure.places.redis_keys import RedisKeys

            prefix, column = _option(address, options, "prefix"), options.pop("column", "")
            return RedisKeys(_address(base, options), prefix, column)
        case "search":
            from headrace.erasure.places.search_index import SearchIndex

            return SearchIndex(path, _option(address, options, "column"))
        case "opensearch" | "opensearch+https":
            from headrace.erasure.places.opensearch_index import OpenSearchIndex

            at = f"{'https' if scheme.endswith('https') else 'http'}://{rest}"
            return OpenSearchIndex(
                at, _option(address, options, "index"), _option(address, options, "column")
            )
        case "delta":
            from headrace.erasure.places.delta_table import DeltaFolder

            return DeltaFolder(path, _option(address, options, "column"))
        case "parquet":
            from headrace.erasure.places.parquet_table import ParquetTable

            return ParquetTable(path, _option(address, options, "column"))
        case "view":
            from headrace.erasure.places.view_versions import ViewVersions
            from headrace.pipeline.settings import pipeline_settings

            folder = pipeline_settings(data_dir=data_dir).local_data_dir
            return ViewVersions(folder, rest, options.pop("column", ""))
    raise BadErasure(f"{redacted(address)} is not a place that can be erased", hint=f"write {FORMS}")


def _option(address: str, options: dict[str, str], name: str) -> str:
    if not options.get(name):
        raise BadErasure(f"{redacted(address)} does not name its {name}", hint=f"write {FORMS}")
    return options.pop(name)


def _address(base: str, options: dict[str, str]) -> str:
    """The address with the options that are the server's own, such as sslmode."""
    return f"{base}?{urlencode(options)}" if options else base
