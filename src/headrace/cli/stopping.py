"""Ctrl-C, SIGTERM and a closed terminal as a flag, so that a command ends between two steps."""

from __future__ import annotations

import signal
import sys
from typing import Self

# Windows has no SIGHUP.
SIGNALS = [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]


class Stopping:
    """Within this context the first signal sets a flag; a second one ends the process immediately."""

    def __init__(self) -> None:
        self.exit_code = 0
        before = {each: signal.getsignal(each) for each in SIGNALS}
        # Signals that are ignored stay ignored: SIGHUP after `nohup`, SIGINT in the background.
        self._before = {each: handler for each, handler in before.items() if handler is not signal.SIG_IGN}

    @property
    def is_wanted(self) -> bool:
        return self.exit_code != 0

    def __enter__(self) -> Self:
        for each in self._before:
            signal.signal(each, self._on_signal)
        return self

    def __exit__(self, *_error: object) -> None:
        for each, handler in self._before.items():
            signal.signal(each, handler)

    def _on_signal(self, number: int, _frame: object) -> None:
        if self.is_wanted:
            sys.exit(128 + number)
        self.exit_code = 128 + number
