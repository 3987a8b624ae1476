from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.gateway.queues.errors import ForeignReceipt, WrongReceipt
from headrace.gateway.queues.receipts import CHARACTERS_MAX, Receipt, Receipts

RECEIPTS = Receipts()


@given(topic=st.text(max_size=249), group=st.text(max_size=255), number=st.integers(0, 2**63 - 1))
def test_receipt_is_read_as_it_was_written(topic: str, group: str, number: int) -> None:
    receipt = Receipt(topic, group, number)
    text = RECEIPTS.text(receipt)
    assert RECEIPTS.read(text) == receipt
    assert len(text) <= CHARACTERS_MAX
    assert text.replace("-", "").replace("_", "").isalnum() or not text.isascii()


@given(st.text(max_size=300))
def test_text_that_is_no_receipt_is_rejected(text: str) -> None:
    with pytest.raises((WrongReceipt, ForeignReceipt)):
        RECEIPTS.read(text)


@given(place=st.integers(0), change=st.integers(1, 255))
def test_receipt_of_which_a_byte_was_changed_is_rejected(place: int, change: int) -> None:
    content = bytearray(base64.urlsafe_b64decode(RECEIPTS.text(Receipt("topic", "group!", 7)) + "==="))
    content[place % len(content)] ^= change
    with pytest.raises((WrongReceipt, ForeignReceipt)):
        RECEIPTS.read(base64.urlsafe_b64encode(content).decode().rstrip("="))


def test_receipt_of_another_process_is_foreign() -> None:
    with pytest.raises(ForeignReceipt):
        RECEIPTS.read(Receipts().text(Receipt("topic", "group", 7)))


def test_receipt_of_another_process_that_claims_to_be_of_this_one_is_rejected() -> None:
    mine = base64.urlsafe_b64decode(RECEIPTS.text(Receipt("t", "g", 1)) + "===")
    other = base64.urlsafe_b64decode(Receipts().text(Receipt("t", "g", 1)) + "===")
    with pytest.raises(WrongReceipt):
        RECEIPTS.read(base64.urlsafe_b64encode(mine[:8] + other[8:]).decode().rstrip("="))
