from __future__ import annotations

import pytest

from headrace.gateway.errors import Overloaded
from headrace.gateway.slots import Slots


def test_one_more_than_allowed_is_rejected_until_one_ends() -> None:
    slots = Slots(1, what="requests")
    with slots.slot(), pytest.raises(Overloaded, match="too many requests"), slots.slot():
        pass
    with slots.slot():
        assert slots.used == 1
    assert slots.used == 0
