from __future__ import annotations

from headrace.gateway.errors import GatewayError


def test_code_is_of_the_same_hundred_as_the_status() -> None:
    kinds = GatewayError.__subclasses__()
    assert len(kinds) > 10
    for each in kinds:
        assert str(each.code)[0] == str(each.status)[0], each
        assert each.may_succeed_later == (each.status in (429, 503)), each
