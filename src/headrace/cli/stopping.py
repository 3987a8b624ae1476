"""Ending between two steps instead of within one: Ctrl-C and SIGTERM as a flag."""

from __future__ import annotations

import signal
import sys
from types import FrameType, TracebackType
from typing import Self

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopping:
    """Within this context the first signal is only noted; a second one ends the process at once."""

    def __init__(self) -> None:
        self.exit_code = 0
        self._before = {each: signal.getsignal(each) for each in SIGNALS}

    @property
    def is_wanted(self) -> bool:
        return self.exit_code != 0

    def __enter__(self) -> Self:
        for each in SIGNALS:
            signal.signal(each, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each, handler in self._before.items():
            signal.signal(each, handler)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if self.is_wanted:
            sys.exit(128 + number)
        self.exit_code = 128 + number
