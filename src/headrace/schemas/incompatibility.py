"""One reason why data of a writer's schema can't be read with a reader's schema."""

from __future__ import annotations

from msgspec import Struct


class Incompatibility(Struct, frozen=True, kw_only=True):
    kind: str
    """Such as TYPE_MISMATCH; the kinds of Confluent's registry where it has one."""

    path: str
    """Where, in the reader's schema: `/fields/0/type`."""

    detail: str
