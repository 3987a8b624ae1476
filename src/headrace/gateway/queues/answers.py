"""The models of responses, for the documentation."""

from __future__ import annotations

from pydantic import BaseModel, Field

from headrace.gateway.answers import RecordAnswer


class MessageAnswer(RecordAnswer):
    receipt: str = Field(description="for `accept`, `release` and `reject`, while the message is locked")
    lock_ms: int = Field(description="for so long the receipt works; then the message is delivered again")
    delivery_count: int = Field(description="which delivery this is: 1 is the first")


class ReceivedAnswer(BaseModel):
    messages: list[MessageAnswer]


class ReceiptAnswer(BaseModel):
    receipt: str
    error_code: int | None = Field(default=None, description="of a message that was not acknowledged")
    message: str | None = None
    hint: str | None = None


class AcknowledgedAnswer(BaseModel):
    results: list[ReceiptAnswer] = Field(description="one for each receipt, in the order of the request")
