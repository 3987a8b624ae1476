"""Programs that a test needs.

If one is missing on a developer's machine, the test is skipped, and the reason names what to install. In CI the test
fails, because there a test that is always skipped looks like one that passes.
"""

from __future__ import annotations

import os
import shutil
from typing import NoReturn

import pytest

from headrace.java import JavaUnavailable, java_command
from headrace.testing.postgres import PostgresUnavailable, postgres_binaries
from headrace.testing.redis_server import RedisUnavailable, redis_command


def require_command(command: str, *, install: str) -> str:
    """The path of `command`; `install` names the package."""
    found = shutil.which(command)
    if found is None:
        _missing(f"{command} is not installed: {install}")
    return found


def require_java() -> str:
    try:
        return java_command()
    except JavaUnavailable as unavailable:
        _missing(str(unavailable))


def require_postgres() -> None:
    try:
        postgres_binaries()
    except PostgresUnavailable as unavailable:
        _missing(str(unavailable))


def require_redis() -> str:
    try:
        return redis_command()
    except RedisUnavailable as unavailable:
        _missing(str(unavailable))


def _missing(reason: str) -> NoReturn:
    if os.environ.get("CI", "").lower() in {"", "0", "false"}:
        pytest.skip(reason)
    pytest.fail(f"{reason} (CI needs all parts)", pytrace=False)
