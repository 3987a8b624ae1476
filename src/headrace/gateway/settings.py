"""The settings of the HTTP gateway: the `[gateway]` table of headrace.toml, with the reason for each limit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace.settings import load, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings:
    host: str = setting(
        "127.0.0.1",
        doc="Address to listen on. An address other than loopback needs `insecure`: there is no authentication yet.",
    )
    port: int = setting(8082, minimum=0, doc="Port to listen on; 0 takes a free one and prints it.")
    insecure: bool = setting(
        False,
        doc="Allow an address that other machines reach. Each of them can then read and write every topic.",
    )
    cors_origins: str = setting(
        "",
        doc="Origins whose pages may use the gateway, with commas, such as https://shop.example; * is every page. None "
        "by default: a page that somebody opens can't read or write topics.",
    )
    schema_registry: bool = setting(
        True, doc="Serve the schema registry, which keeps its schemas in the topic `_schemas`."
    )
    registry: str = setting(
        "",
        doc="Address of another schema registry (or several, with commas), such as http://127.0.0.1:8081: the gateway "
        "then serves none, and uses that one for records with schemas and for the catalogue. Two kinds of registries "
        "must not write to one topic.",
    )
    connections_max: int = setting(
        10_240,
        minimum=1,
        doc="Open connections. One more closes the oldest that waits for a request; so half-open requests stop nobody.",
    )
    requests_max: int = setting(
        256,
        minimum=1,
        doc="Requests that write or read at a time; streams do not count. More would only wait for each other.",
    )
    requests_per_s_max: int = setting(
        0,
        minimum=0,
        doc="Requests a second of one client, by its address; one more gets 429. 0 is no limit: behind a proxy, all "
        "clients have its address.",
    )
    requests_burst: int = setting(
        100, minimum=1, doc="Requests that a client may send together after a pause, if they have a rate."
    )
    head_bytes_max: int = setting(
        65_536, minimum=1_024, doc="Bytes of a request line with its headers; the id of a stream fits."
    )
    head_ms_max: int = setting(
        10_000, minimum=10, doc="A connection is closed if the head of its request takes longer."
    )
    body_bytes_max: int = setting(
        10_485_760, minimum=1, doc="Bytes of a body. A larger one is rejected before it is read."
    )
    body_ms_max: int = setting(30_000, minimum=10, doc="A request is rejected if its body takes longer.")
    bodies_bytes_max: int = setting(
        268_435_456, minimum=1, doc="Bytes of all bodies together that are in memory at a time."
    )
    records_max: int = setting(
        10_000, minimum=1, doc="Records of one request, written or read; a larger response only costs memory."
    )
    linger_ms: int = setting(
        1, minimum=0, doc="How long a record waits for others before it is sent to the broker with them."
    )
    produce_ms_max: int = setting(
        30_000,
        minimum=10,
        doc="A record that the broker has not acknowledged by then fails, and its request with it.",
    )
    webhook_answer_ms_max: int = setting(
        8_000,
        minimum=10,
        doc="A webhook whose event is not acknowledged by then gets 503, and is sent again. GitHub waits for 10 s.",
    )
    unacknowledged_records_max: int = setting(
        100_000,
        minimum=1,
        doc="Records that wait for the broker. More are rejected with 429, and memory is bounded.",
    )
    read_bytes_max: int = setting(
        1_048_576, minimum=1, doc="Bytes of one response with records, if the request does not ask for fewer."
    )
    readers_max: int = setting(
        8,
        minimum=1,
        doc="Clients of the broker that read older records, for requests and for streams that are behind. Each has "
        "threads and connections of its own.",
    )
    reader_wait_ms_max: int = setting(
        15_000,
        minimum=10,
        doc="How long a request or a stream waits for one of these; then it gets 503, or ends.",
    )
    wait_ms_max: int = setting(
        60_000,
        minimum=0,
        doc="The longest `wait` of a read. A client that wants to wait longer repeats the request.",
    )
    subscribers_max: int = setting(
        8_192, minimum=1, doc="Streams and waiting reads at a time; one more gets 503. Each costs tens of KB."
    )
    stream_topics_max: int = setting(16, minimum=1, doc="Topics of one stream.")
    followed_topics_max: int = setting(
        256, minimum=1, doc="Topics that streams follow at a time; each has a buffer of its own."
    )
    buffer_records_max: int = setting(
        10_000,
        minimum=1,
        doc="The newest records of a topic, shared by its streams. A stream that is behind them reads the log itself.",
    )
    buffer_bytes_max: int = setting(8_388_608, minimum=1, doc="Bytes of these records.")
    page_bytes_max: int = setting(
        131_072,
        minimum=1,
        doc="Bytes that a stream takes at a time: what a client that does not read costs, besides the sockets.",
    )
    send_ms_max: int = setting(
        30_000,
        minimum=10,
        doc="A stream whose client takes nothing for so long is closed. The client can resume.",
    )
    heartbeat_ms: int = setting(
        15_000,
        minimum=10,
        doc="Pause after which a silent stream sends its position; proxies close silent ones.",
    )
    resume_overlap_ms: int = setting(
        10_000,
        minimum=0,
        doc="A stream that resumes on another cluster starts so long before the time of its last record, because "
        "timestamps are not in order across partitions. Records may then be repeated.",
    )
    queue_consumers_max: int = setting(
        64,
        minimum=1,
        doc="Consumers of queues: each serves one `receive`, until its messages are acknowledged or their locks have "
        "ended. One more gets 503. Each has four threads and about a megabyte.",
    )
    queue_messages_max: int = setting(
        100, minimum=1, doc="Messages of one `receive`; a client locks more than it can process otherwise."
    )
    queue_idle_ms: int = setting(
        5_000,
        minimum=10,
        doc="A consumer that no client needs for so long leaves its group: its partitions go to others.",
    )
    queues_max: int = setting(
        1_000,
        minimum=1,
        doc="Queues that clients use at a time, each a topic with a group; one more gets 503.",
    )
    metadata_ms: int = setting(
        10_000,
        minimum=10,
        doc="How long the partitions of topics are remembered; new ones are followed by then.",
    )
    retry_after_s_max: int = setting(
        5,
        minimum=1,
        doc="Retry-After of a rejected request is between 1 and this, so that clients come back spread.",
    )

    @property
    def origins(self) -> list[str]:
        return [each.strip() for each in self.cors_origins.split(",") if each.strip()]


def gateway_settings(flags: Mapping[str, Any] | None = None) -> GatewaySettings:
    return load(GatewaySettings, section="gateway", flags=flags)
