"""Signals as a flag, and as they were before and after."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from headrace.cli.stopping import SIGNALS, Stopping


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = {each: signal.getsignal(each) for each in SIGNALS}
    yield
    for each, handler in before.items():
        signal.signal(each, handler)


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_first_signal_sets_the_exit_code_and_a_second_one_ends_the_process(number: signal.Signals) -> None:
    signal.signal(number, signal.SIG_DFL)
    with Stopping() as stopping:
        assert not stopping.is_wanted
        signal.raise_signal(number)
        assert stopping.is_wanted
        assert stopping.exit_code == 128 + number
        with pytest.raises(SystemExit) as ended:
            signal.raise_signal(number)

    assert ended.value.code == 128 + number


def test_handlers_are_restored() -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with Stopping():
        assert signal.getsignal(signal.SIGTERM) is not signal.default_int_handler

    assert signal.getsignal(signal.SIGTERM) is signal.default_int_handler


def test_ignored_signal_stays_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with Stopping() as stopping:
        signal.raise_signal(signal.SIGHUP)

    assert not stopping.is_wanted
