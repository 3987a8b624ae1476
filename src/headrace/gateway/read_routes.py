"""Reading records without a session: where to start is in the request, and where to continue in the response."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from msgspec import Raw, Struct, structs

from headrace.durations import parse_duration_ms
from headrace.gateway.answers import RecordsAnswer, as_json
from headrace.gateway.errors import BadRequest
from headrace.gateway.event_ids import CHARACTERS_MAX, offsets_of
from headrace.gateway.feeds import Feeds
from headrace.gateway.log_reader import LogReader, Offsets, Page
from headrace.gateway.produce_routes import TopicName
from headrace.gateway.records import Format, encoded
from headrace.gateway.settings import GatewaySettings
from headrace.gateway.slots import Slots
from headrace.gateway.starts import EARLIEST, Starts
from headrace.gateway.subscription import subscribed
from headrace.gateway.topics import Topics
from headrace.kafka.position import Position

RECORDS_DEFAULT = 100

From = Annotated[
    str | None,
    Query(
        alias="from",
        max_length=50,
        description="`earliest`, `latest`, or a time: `2026-11-15T10:30:00Z`, milliseconds since 1970, `1h` before now",
    ),
]


class Where(Struct, frozen=True, kw_only=True):
    """Where a read starts: one of these, or the first record."""

    partition: int | None
    offset: int | None
    position: str | None
    start: str | None

    def check(self) -> None:
        if sum(each is not None for each in (self.offset, self.position, self.start)) > 1:
            raise BadRequest("more than one start is given", hint="give one of offset, position and from")
        if self.offset is not None and self.partition is None:
            raise BadRequest("offset needs a partition", hint="add partition=0, or pass a position")


def read_router(
    topics: Topics,
    starts: Starts,
    log: LogReader,
    feeds: Feeds,
    settings: GatewaySettings,
    *,
    requests: Slots,
    subscribers: Slots,
) -> APIRouter:
    router = APIRouter(tags=["read"])

    async def start_of(topic: str, where: Where) -> Offsets:
        where.check()
        if where.partition is not None:
            await topics.check_partition(topic, where.partition)
        if where.offset is not None and where.partition is not None:
            return {topic: {where.partition: where.offset}}
        if where.position is not None:
            found = await starts.at_position([topic], offsets_of(where.position))
        else:
            found = await starts.at([topic], where.start or EARLIEST)
        if where.partition is not None:
            return {topic: {where.partition: found[topic][where.partition]}}
        return found

    async def wait_for_records(page: Page, *, wait_s: float, count: int, bytes_max: int) -> Page:
        """The page, or one with the next records of its topic."""
        (topic,) = page.next
        with subscribers.slot():
            async with subscribed(
                feeds, log, [topic], _all(page.next), page_bytes_max=bytes_max
            ) as next_ones:
                taken = await next_ones.next(wait_s=wait_s, count=count)
                return Page(
                    records=[record for record, _ in taken],
                    next=next_ones.offsets,
                    gaps=next_ones.gaps,
                    at_end=not taken,
                )

    @router.get(
        "/topics/{topic}/records",
        summary="Read records from a position, an offset or a time on",
        responses={200: {"model": RecordsAnswer}},
        response_model=None,
    )
    async def read_records(
        topic: TopicName,
        request: Request,
        partition: Annotated[
            int | None, Query(ge=0, lt=2**31, description="only this one; all by default")
        ] = None,
        offset: Annotated[
            int | None, Query(ge=0, lt=2**63, description="the first offset to read of this partition")
        ] = None,
        position: Annotated[
            str | None, Query(max_length=CHARACTERS_MAX, description="`position` of the response before")
        ] = None,
        start: From = None,
        limit: Annotated[
            int, Query(ge=1, description="records; the gateway has a bound, too")
        ] = RECORDS_DEFAULT,
        max_bytes: Annotated[
            int | None,
            Query(ge=1, description="bytes; the response has at least one record, if there is any"),
        ] = None,
        wait: Annotated[
            str, Query(max_length=20, description="how long to wait for a record if there is none: `5s`")
        ] = "0s",
        format: Annotated[Format, Query(description="of values")] = Format.JSON,
    ) -> Response:
        wait_s = _seconds(wait, settings)
        if wait_s and partition is not None:
            raise BadRequest("wait is for all partitions together", hint="leave out partition, or wait")
        count = min(limit, settings.records_max)
        bytes_max = min(max_bytes or settings.read_bytes_max, settings.read_bytes_max)
        with requests.slot():
            where = Where(partition=partition, offset=offset, position=position, start=start)
            first = await start_of(topic, where)
            page = await log.read(first, records_max=count, bytes_max=bytes_max)
        if wait_s and not (page.records or page.gaps):
            page = await wait_for_records(page, wait_s=wait_s, count=count, bytes_max=bytes_max)
        return as_json(_answer(page, format))

    return router


def _answer(page: Page, format: Format) -> dict[str, Any]:
    return {
        "records": [Raw(encoded(each, format)) for each in page.records],
        "position": Position(page.next).token(),
        "at_end": page.at_end,
        "gaps": [structs.asdict(each) for each in page.gaps],
    }


def _all(offsets: Offsets) -> Offsets:
    return {topic: dict(partitions) for topic, partitions in offsets.items()}


def _seconds(wait: str, settings: GatewaySettings) -> float:
    wait_ms = parse_duration_ms(wait)
    if wait_ms > settings.wait_ms_max:
        raise BadRequest(
            f"wait={wait} is too long",
            hint=f"wait up to {settings.wait_ms_max // 1000}s, and repeat the request",
        )
    return wait_ms / 1000
