"""Every module has its test beside it: `src/headrace/a/b.py` is tested by `tests/a/test_b.py`."""

from __future__ import annotations

from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "headrace"
TESTS = Path(__file__).parent
# One test file checks all of them by name: tests/protocol/test_messages.py.
MESSAGES = SOURCE / "protocol" / "messages"


def test_every_module_has_its_test_at_the_mirrored_path() -> None:
    modules = [
        path.relative_to(SOURCE)
        for path in SOURCE.rglob("*.py")
        if path.name not in ("__init__.py", "__main__.py") and path.parent != MESSAGES
    ]
    assert len(modules) > 400
    missing = [
        module.as_posix()
        for module in modules
        if not (TESTS / module.with_name(f"test_{module.name}")).exists()
    ]
    assert missing == []
