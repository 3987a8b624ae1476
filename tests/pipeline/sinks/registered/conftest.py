"""The registry of the tests of sources."""

from __future__ import annotations

from tests.pipeline.source.registered.conftest import client, registry

__all__ = ["client", "registry"]
