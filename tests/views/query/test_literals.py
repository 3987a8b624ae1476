from __future__ import annotations

from decimal import Decimal

import pytest

from headrace.views.errors import BadView
from headrace.views.query.literals import literal_of


@pytest.mark.parametrize("value", [None, [1], {"a": 1}, float("nan"), Decimal("Infinity"), object()])
def test_value_that_cannot_be_compared_is_rejected(value: object) -> None:
    with pytest.raises(BadView, match="column city can't be compared"):
        literal_of("city", value)
