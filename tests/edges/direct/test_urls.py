from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.edges.direct.urls import check_bind, check_connect
from headrace.errors import HeadraceError


@pytest.mark.parametrize("url", ["tcp://127.0.0.1:5555", "tcp://[::1]:5555", "ipc:///run/feed"])
def test_loopback_and_ipc_are_listened_on(url: str) -> None:
    assert check_bind(url, is_open=False) == url


@pytest.mark.parametrize(
    "url", ["tcp://0.0.0.0:5555", "tcp://*:5555", "tcp://10.0.0.7:5555", "tcp://[::]:5555"]
)
def test_address_that_others_reach_must_be_allowed(url: str) -> None:
    with pytest.raises(HeadraceError, match="not a loopback address"):
        check_bind(url, is_open=False)
    assert check_bind(url, is_open=True) == check_connect(url) == url


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:5555", "inproc://here", "tcp://127.0.0.1", "ipc://", "tcp://a:b"]
)
def test_what_is_no_address_is_an_error_with_the_remedy(url: str) -> None:
    with pytest.raises(HeadraceError) as error:
        check_connect(url)
    assert error.value.hint


@given(st.one_of(st.text(), st.builds(str.__add__, st.sampled_from(["tcp://", "ipc://"]), st.text())))
def test_any_text_is_an_address_or_an_error(text: str) -> None:
    with contextlib.suppress(HeadraceError):
        assert check_connect(text) == text
