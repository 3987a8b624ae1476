"""Programs that a test needs.

If one is missing on a developer's machine, the test is skipped, and the reason names what to install. In CI the test
fails, because there a test that is always skipped looks like one that passes.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn, TypeVar

import pytest

from headrace.java import JavaUnavailable, java_command
from headrace.testing.mariadb import mariadb_command
from headrace.testing.postgres import postgres_binaries
from headrace.testing.redis_server import redis_command
from headrace.testing.server_process import ServerUnavailable

T = TypeVar("T")


def require_command(command: str, *, install: str) -> str:
    """The path of `command`; `install` names the package."""
    found = shutil.which(command)
    if found is None:
        _missing(f"{command} is not installed: {install}")
    return found


def require_java() -> str:
    return _require(java_command)


def require_mariadb() -> str:
    return _require(mariadb_command)


def require_postgres() -> Path:
    return _require(postgres_binaries)


def require_redis() -> str:
    return _require(redis_command)


def _require(find: Callable[[], T]) -> T:
    try:
        return find()
    except (JavaUnavailable, ServerUnavailable) as unavailable:
        _missing(str(unavailable))


def _missing(reason: str) -> NoReturn:
    if os.environ.get("CI", "").lower() in {"", "0", "false"}:
        pytest.skip(reason)
    pytest.fail(f"{reason} (CI needs all parts)", pytrace=False)
