"""What a sender gets. A status decides whether it sends the request again:

2xx    the request is done; it is also the answer to a bad one that is kept as a dead letter
401    says nothing more: who guesses signatures learns nothing
413    the topic does not take so large an event: the sender has the only complete copy
429    too many requests, for this source or for the broker; Retry-After
503    not done in time, or the broker is unavailable; Retry-After
"""

from __future__ import annotations

from msgspec import Struct

from headrace.webhooks.incoming.counters import Outcome


class Answer(Struct, frozen=True, kw_only=True):
    status: int
    text: str
    outcome: Outcome | None
    """None: the request was not verified."""
    may_succeed_later: bool = False

    @property
    def is_done(self) -> bool:
        return 200 <= self.status < 300


ACCEPTED = Answer(status=200, text="accepted", outcome=Outcome.ACCEPTED)
BUFFERED = Answer(status=202, text="accepted", outcome=Outcome.BUFFERED)
DUPLICATE = Answer(status=200, text="accepted before", outcome=Outcome.DUPLICATE)
PING = Answer(status=200, text="pong", outcome=Outcome.PING)
DEAD_LETTER = Answer(status=202, text="kept as a dead letter", outcome=Outcome.DEAD_LETTER)
NOT_ACCEPTED = Answer(status=401, text="not accepted", outcome=None)
TOO_LARGE = Answer(status=413, text="larger than the topic takes", outcome=Outcome.TOO_LARGE)
OVER_RATE = Answer(status=429, text="too many requests", outcome=Outcome.OVER_RATE, may_succeed_later=True)
OVERLOADED = Answer(status=429, text="too many requests", outcome=Outcome.OVERLOADED, may_succeed_later=True)
UNAVAILABLE = Answer(
    status=503, text="not available at the moment", outcome=Outcome.UNAVAILABLE, may_succeed_later=True
)
