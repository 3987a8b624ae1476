"""What the commands of views print as JSON."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from headrace.cli.output import Shape, result


@result("view create")
class CreatedView(Struct, frozen=True, kw_only=True):
    name: str
    topics: Annotated[list[str], "the topics that it reads; empty for a script"]
    store: Annotated[str, "where its rows will be"]


@result("view list", shape=Shape.LIST)
class ListedView(Struct, frozen=True, kw_only=True):
    name: str
    store: Annotated[str, "kind of store"]
    version: Annotated[int | None, "the version that readers get; null while the first one is built"]
    building: Annotated[int | None, "the version that a rebuild builds, or has left incomplete"]
    state: Annotated[str, "new, building, running, waiting to restart, switching, stopped, failed or killed"]
    since: Annotated[str | None, "when it got into this state"]
    lag: Annotated[int | None, "records that it had not read at its last batch; null if unknown"]
    error: Annotated[str, "of the last failure; empty if there was none"]


@result("view lag", shape=Shape.LIST)
class ViewLag(Struct, frozen=True, kw_only=True):
    view: str
    topic: str
    partition: int
    position: Annotated[int, "the next offset that the view reads"]
    end: Annotated[int, "the next offset of the partition"]
    lag: Annotated[int, "records that the view has not read"]
    lag_s: Annotated[float | None, "age of the first of them in seconds; null if there is none"]
    token: Annotated[str, "the position of the view over all partitions"]


@result("view remove")
class RemovedView(Struct, frozen=True, kw_only=True):
    name: str
    done: Annotated[str, "what was done"]


@result("view rebuild", shape=Shape.LIST)
class RebuiltView(Struct, frozen=True, kw_only=True):
    name: str
    version: Annotated[int, "the version that readers get now"]
    rows: Annotated[int | None, "of this version; null if there was none before it"]
    rows_before: Annotated[int | None, "of the version before it; null if there was none"]
    compared: Annotated[int, "rows that were compared by all their columns; 0 if the definition has changed"]
