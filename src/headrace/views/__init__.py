"""Views: read models that follow topics, built on Spark, served from a store, and rebuilt beside the serving version.

    from headrace.views import open_view

    with open_view("users_by_city") as view:
        print(view.get(city="Oslo"))

definition   what a view is: topics, SQL or operators, key, store
store        the contract of a store: versions of one view, and which of them is served
reader       the contract of reading one version
view         reading a view by its name; query/ selections, following, http
stores/      one module for each kind of store
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.exports import lazy_exports

if TYPE_CHECKING:
    from headrace.kafka.position import Position
    from headrace.views.errors import BadView, ViewBehind, ViewUnavailable
    from headrace.views.following import Change, Step
    from headrace.views.reader import Found, SearchResult
    from headrace.views.view import Page, ViewReader, open_view
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "headrace.kafka.position": ("Position",),
            "errors": ("BadView", "ViewBehind", "ViewUnavailable"),
            "following": ("Change", "Step"),
            "reader": ("Found", "SearchResult"),
            "view": ("Page", "ViewReader", "open_view"),
        },
    )

__all__ = [
    "BadView",
    "Change",
    "Found",
    "Page",
    "Position",
    "SearchResult",
    "Step",
    "ViewBehind",
    "ViewReader",
    "ViewUnavailable",
    "open_view",
]
