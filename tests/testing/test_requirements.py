"""A missing program skips a test on a developer's machine, and fails it in CI."""

from __future__ import annotations

import pytest

from headrace.testing.requirements import require_command, require_redis


@pytest.fixture(
    params=[("true", pytest.fail.Exception), ("", pytest.skip.Exception)], ids=["ci", "developer"]
)
def outcome(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> type[BaseException]:
    in_ci, outcome = request.param
    monkeypatch.setenv("CI", in_ci)
    return outcome  # type: ignore[no-any-return]


def test_missing_command_fails_in_ci_and_skips_elsewhere(outcome: type[BaseException]) -> None:
    with pytest.raises(outcome, match="apt-get install no-such-command"):
        require_command("no-such-command", install="apt-get install no-such-command")


def test_missing_server_fails_in_ci_and_skips_elsewhere(
    outcome: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(outcome, match="apt install redis-server"):
        require_redis()


def test_command_that_is_installed_is_found_by_its_path() -> None:
    assert require_command("sh", install="a shell").endswith("/sh")
