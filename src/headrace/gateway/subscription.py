"""One reader of one or several topics: exactly the records after its start, each once, as they come.

It takes the newest records from the feeds that all readers share. While it is behind them it reads the log itself. The
two meet where the feed has every record after the reader's offsets.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from headrace.gateway.feed import Feed, Kept
from headrace.gateway.feeds import Feeds
from headrace.gateway.log_reader import BeyondEnd, Gap, LogReader, Offsets
from headrace.gateway.records import Record

PAGE_RECORDS_MAX = 500

Taken = tuple[Record, Kept | None]
"""A record. The second is set if the feed has it, and every reader is at the same offsets after it."""

Restart = Callable[[str], Awaitable[dict[int, int]]]
"""Where to start in a topic whose offsets turn out to be those of another one."""


class Cursor:
    """The place in one topic: `offsets` of all that was taken, and a number in the feed, or None while it is behind."""

    def __init__(self, feed: Feed, offsets: dict[int, int]) -> None:
        self.feed = feed
        self.offsets = offsets
        self._number: int | None = None
        self._feed_offsets: dict[int, int] | None = None
        """Those of the feed before that number; None once they are the same as ours."""
        if all(offset <= feed.at_end.get(partition, 0) for partition, offset in offsets.items()):
            self._join()
        # Otherwise the log has to confirm that these offsets exist.

    @property
    def is_behind(self) -> bool:
        """Then the log has to be read."""
        return self._number is None or self._number < self.feed.first

    def take(self, count: int, bytes_max: int) -> list[Taken]:
        """The next records of the feed, which it is not behind."""
        assert self._number is not None
        found: list[Taken] = []
        size = 0
        for kept in self.feed.since(self._number, count):
            self._number += 1
            if self._is_new(kept.record):
                found.append((kept.record, kept if self._feed_offsets is None else None))
                size += kept.record.size_bytes
                if size >= bytes_max:
                    break
        return found

    @property
    def has_more(self) -> bool:
        return self.is_behind or self._number != self.feed.end

    def all_offsets(self) -> dict[int, int]:
        """With those of partitions that were added to the topic since."""
        return {each: self.offsets.get(each, 0) for each in self.feed.at_end} | self.offsets

    def moved_to(self, offsets: dict[int, int]) -> None:
        """The log was read up to these offsets."""
        self.offsets = offsets
        self._join()

    def _is_new(self, record: Record) -> bool:
        """Whether it was not taken from the log before."""
        after = record.offset + 1
        is_new = record.offset >= self.offsets.get(record.partition, 0)
        if is_new:
            self.offsets[record.partition] = after
        if self._feed_offsets is not None:
            self._feed_offsets[record.partition] = after
            self._compare()
        return is_new

    def _join(self) -> None:
        self._number = None
        if self.feed.has_all_after(self.offsets):
            self._number, self._feed_offsets = self.feed.place_of(self.offsets)
            self._compare()

    def _compare(self) -> None:
        if self._feed_offsets == self.offsets:
            self._feed_offsets = None


class Subscription:
    def __init__(
        self,
        feeds: Feeds,
        log: LogReader,
        cursors: Sequence[Cursor],
        *,
        page_bytes_max: int,
        restart: Restart | None = None,
    ) -> None:
        self._feeds = feeds
        self._log = log
        self._cursors = cursors
        self._page_bytes_max = page_bytes_max
        self._restart = restart
        self._woken = asyncio.Event()
        self._is_closed = False
        self._turn = 0
        self.gaps: list[Gap] = []
        """Records that were deleted before they were read; the caller empties the list."""

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    @property
    def offsets(self) -> Offsets:
        return {each.feed.topic: dict(each.offsets) for each in self._cursors}

    def close(self) -> None:
        """Have `next` return."""
        self._is_closed = True
        self.wake()

    def wake(self) -> None:
        self._woken.set()

    async def next(self, *, wait_s: float, count: int = PAGE_RECORDS_MAX) -> list[Taken]:
        """The next records, of one topic. Empty if there are none in time, if there is a gap, or when it is closed."""
        deadline_s = time.monotonic() + wait_s
        while not self._is_closed:
            self._woken.clear()
            for cursor in self._in_turn():
                found = await self._take(cursor, count)
                if found or self.gaps:
                    return found
            if any(each.has_more for each in self._cursors):
                continue
            try:
                async with asyncio.timeout(deadline_s - time.monotonic()):
                    await self._woken.wait()
            except TimeoutError:
                break
        return []

    def _in_turn(self) -> Sequence[Cursor]:
        """Another one first each time, so that a busy topic does not delay the others."""
        self._turn = (self._turn + 1) % len(self._cursors)
        return [*self._cursors[self._turn :], *self._cursors[: self._turn]]

    async def _take(self, cursor: Cursor, count: int) -> list[Taken]:
        if failure := self._feeds.failure(cursor.feed):
            raise failure
        if not cursor.is_behind:
            return cursor.take(count, self._page_bytes_max)
        topic = cursor.feed.topic
        try:
            page = await self._log.read(
                {topic: cursor.all_offsets()}, records_max=count, bytes_max=self._page_bytes_max
            )
        except BeyondEnd:
            if self._restart is None:
                raise
            cursor.moved_to(await self._restart(topic))
            return []
        self.gaps += page.gaps
        cursor.moved_to(page.next[topic])
        return [(each, None) for each in page.records]


@contextlib.asynccontextmanager
async def subscribed(
    feeds: Feeds,
    log: LogReader,
    topics: Sequence[str],
    start: Offsets | None,
    *,
    page_bytes_max: int,
    restart: Restart | None = None,
) -> AsyncIterator[Subscription]:
    """From these offsets on; without them, from the records that come next."""
    async with contextlib.AsyncExitStack() as open_feeds:
        cursors = []
        for topic in topics:
            feed = await open_feeds.enter_async_context(feeds.feed(topic))
            cursors.append(Cursor(feed, dict(feed.at_end if start is None else start[topic])))
        found = Subscription(feeds, log, cursors, page_bytes_max=page_bytes_max, restart=restart)
        for each in cursors:
            each.feed.wakers.add(found.wake)
        try:
            yield found
        finally:
            for each in cursors:
                each.feed.wakers.discard(found.wake)
