"""The panel of the views that `headrace run` keeps: what each does, and a few words of what it serves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from headrace.cli.demo.shop_views import CACHE, INDEX, TABLE
from headrace.cli.output import plain_text
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from headrace.views.reader import Reader

SEARCH = "tea"


class ServedView(Struct, frozen=True, kw_only=True):
    name: str
    store: str
    state: str
    records: int
    lag: int | None
    serves: str


class ViewsPanel:
    """Reads each view as any reader would."""

    def __init__(self, data_dir: Path) -> None:
        from headrace.views.catalog import Views

        self.rows: list[ServedView] = []
        self._views = Views(data_dir)

    def sample(self) -> None:
        self.rows = [
            self._sampled(name) for name in (TABLE, CACHE, INDEX) if name in set(self._views.names())
        ]

    def _sampled(self, name: str) -> ServedView:
        from headrace.views.stores import open_store

        folder = self._views.folder(name)
        status = folder.status()
        definition, version = folder.served()
        serves = status.error
        if version is not None:
            store = open_store(definition, self._views.data_dir)
            try:
                reader = store.reader(version)
                try:
                    serves = _READINGS[name](reader)
                finally:
                    reader.close()
            except HeadraceError as error:
                serves = str(error)
            finally:
                store.close()
        return ServedView(
            name=name,
            store=definition.store,
            state=status.state.value,
            records=status.rows_in,
            lag=status.lag,
            serves=serves,
        )

    def render(self, rows_max: int) -> RenderableType:
        from rich import box
        from rich.table import Table
        from rich.text import Text

        if not self.rows:
            return Text("views follow the shop as soon as Spark runs")
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
        for column in ("view", "store", "state", "records", "lag", "serves"):
            table.add_column(column, justify="right" if column in ("records", "lag") else "left")
        for row in self.rows[:rows_max]:
            lag = "-" if row.lag is None else f"{row.lag:,}"
            table.add_row(row.name, row.store, row.state, f"{row.records:,}", lag, plain_text(row.serves))
        return table

    def summary(self) -> str:
        return "; ".join(f"view {row.name} {row.state}: {row.serves}" for row in self.rows)


def _table(reader: Reader) -> str:
    from headrace.views.selection import Selection

    rows = reader.select(Selection(order_by=(("orders", True),), limit=3))
    return " · ".join(f"{row['city']} {row['orders']} orders" for row in rows)


def _cache(reader: Reader) -> str:
    row = reader.get({"id": 1})
    return "" if row is None else f"{row['name']}: {row['stock']} in stock"


def _index(reader: Reader) -> str:
    found = reader.search(SEARCH, limit=3)
    return f"'{SEARCH}': {found.total} hits: " + ", ".join(str(hit.row["name"]) for hit in found.hits)


_READINGS: Mapping[str, Callable[[Reader], str]] = {TABLE: _table, CACHE: _cache, INDEX: _index}
