from __future__ import annotations

from typing import Any, Union

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from headrace.errors import HeadraceError
from headrace.events import EventsError, InvalidEvent, UnknownEventType
from headrace.events.codec import Codec, decode_state, type_name
from tests.events.accounts import Balance, Deposit, Deposited, Event, Withdraw, Withdrawn

CODEC = Codec("event", Event)


@given(
    st.builds(Deposited, amount=st.integers(-(2**60), 2**60)) | st.builds(Withdrawn, amount=st.integers(0, 9))
)
def test_event_survives_json(event: Event) -> None:
    assert CODEC.decode(*CODEC.encode(event)) == event


@given(st.dictionaries(st.text(), st.integers() | st.text() | st.none()))
def test_dict_survives_json(fields: dict[str, Any]) -> None:
    event = {**fields, "type": "noted"}
    codec = Codec("event", dict)
    assert codec.encode(event)[0] == "noted"
    # Integers beyond 64 bits are numbers in JSON, too, and lose nothing.
    assert codec.decode(*codec.encode(event)) == event


def test_name_is_the_tag_or_the_class() -> None:
    assert (type_name(Deposited), type_name(Deposit)) == ("deposited", "Deposit")


@pytest.mark.parametrize("types", [Deposit | Withdraw, Union[Deposit, Withdraw], Deposit])  # noqa: UP007
def test_union_may_be_written_in_any_way(types: Any) -> None:
    codec = Codec("command", types)
    assert codec.decode(*codec.encode(Deposit(amount=1))) == Deposit(amount=1)


def test_new_field_with_a_default_reads_old_events() -> None:
    assert CODEC.decode("deposited", b'{"type":"deposited","amount":3}') == Deposited(amount=3, note="")


def test_unknown_type_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(UnknownEventType, match=r"closed is unknown.*deposited, withdrawn"):
        CODEC.decode("closed", b"{}")


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b'{"amount": "x"}', b"{}", b"\xff", b"[" * 100_000])
def test_content_that_does_not_fit_is_an_error(content: bytes) -> None:
    with pytest.raises(InvalidEvent, match="deposited"):
        CODEC.decode("deposited", content)


@pytest.mark.parametrize("content", [b"[]", b"3", b"\xff", b"{"])
def test_content_that_is_no_dict_is_an_error(content: bytes) -> None:
    with pytest.raises(InvalidEvent):
        Codec("event", dict).decode("noted", content)


@pytest.mark.parametrize("item", [Deposit(amount=1), {"type": "deposited"}, None, "deposited"])
def test_item_of_another_type_is_rejected(item: object) -> None:
    with pytest.raises(InvalidEvent, match="no declared event"):
        CODEC.encode(item)


def test_dict_may_be_declared_with_its_types() -> None:
    assert Codec("event", dict[str, Any]).encode({"type": "noted"})[0] == "noted"


@pytest.mark.parametrize("item", [{}, {"type": ""}, {"type": 3}, [], Deposited(amount=1)])
def test_dict_needs_a_type(item: object) -> None:
    with pytest.raises(InvalidEvent, match="key 'type'"):
        Codec("event", dict).encode(item)


def test_item_that_json_cannot_have_is_rejected() -> None:
    with pytest.raises(InvalidEvent, match="can't be JSON"):
        Codec("event", dict).encode({"type": "noted", "what": object()})


@pytest.mark.parametrize("types", [int, Deposit | int, "Deposit", None, list[Deposit]])
def test_types_that_are_no_structs_are_rejected(types: Any) -> None:
    with pytest.raises(EventsError, match="can't be the type"):
        Codec("event", types)


def test_two_types_of_one_name_are_rejected() -> None:
    class Other(Struct, tag="deposited"):
        pass

    with pytest.raises(EventsError, match="two event types are named deposited"):
        Codec("event", Deposited | Other)


def test_state_that_does_not_fit_is_an_error() -> None:
    assert decode_state(Balance, b'{"amount":2,"changes":1}') == Balance(amount=2, changes=1)
    with pytest.raises(HeadraceError, match="does not fit"):
        decode_state(Balance, b'{"amount":"two"}')
