"""Cases whose server takes many seconds to start are slow tests."""

from __future__ import annotations

from pathlib import Path

import pytest

SLOW = "opensearch"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        # pytest passes the items of all folders.
        if item.path.is_relative_to(Path(__file__).parent) and f"[{SLOW}" in item.name:
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.timeout(600))
