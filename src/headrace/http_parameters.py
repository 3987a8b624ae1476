"""Query parameters: a mistyped one is an error, because a request without it would do something else."""

from __future__ import annotations

from collections.abc import Collection

from fastapi import Request

from headrace.errors import HeadraceError
from headrace.names import did_you_mean


class UnknownParameter(HeadraceError):
    """A query parameter that the route does not have."""


async def only_known_parameters(request: Request) -> None:
    """A dependency of FastAPI."""
    check_parameters(request, {each.alias for each in request.scope["route"].dependant.query_params})


def check_parameters(request: Request, known: Collection[str]) -> None:
    for name in request.query_params:
        if name not in known:
            hint = did_you_mean(name, known) or f"the parameters are {', '.join(sorted(known)) or 'none'}"
            raise UnknownParameter(f"the parameter {name[:50]} is unknown", hint=hint)
