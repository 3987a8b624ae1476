"""What a broker can be told, with the reason for each bound."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from headrace.records.record import BATCH_RECORDS_MAX
from headrace.settings import setting


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    data_dir: Path = setting(Path("data"), doc="Folder of the log. One broker at a time holds it.")
    host: str = setting(
        "127.0.0.1",
        doc="Address to listen on, of the broker and of its metrics. Another than loopback needs `insecure`: there is "
        "no authentication yet.",
    )
    insecure: bool = setting(
        False,
        doc="Allow an address that other machines reach. Every one of them can then read, write and delete everything; "
        "the broker warns of that at every start.",
    )
    port: int = setting(9092, minimum=0, doc="Port to listen on; 0 takes a free one and prints it.")
    advertised: str | None = setting(
        None,
        doc="HOST:PORT told to clients. By default each client is told the address that it connected to, "
        "which is right unless something between rewrites addresses.",
    )
    durability: str = setting(
        "fsync",
        choices=("fsync", "os"),
        doc="fsync: acknowledged means on disk, many requests sharing one fsync. os: acknowledged means in the "
        "page cache, which survives a crash of the broker but not of the machine.",
    )
    metrics_port: int | None = setting(
        None, minimum=0, doc="Port of the HTTP page with Prometheus metrics and health; none by default."
    )
    metrics_connections_max: int = setting(
        32,
        minimum=1,
        doc="Open connections to metrics_port; for one more the oldest is closed. A scraper needs one.",
    )
    metrics_request_ms_max: int = setting(
        10_000,
        minimum=10,
        doc="A request to metrics_port that takes longer is hung up on; Prometheus waits as long.",
    )
    health_free_bytes_min: int = setting(
        67_108_864,
        minimum=0,
        doc="The broker is unhealthy when the disk of the data folder has less room: time to act before writes fail.",
    )
    health_disk_ms_max: int = setting(
        5_000,
        minimum=10,
        doc="The broker is unhealthy when its disk needs longer for a small file. It must be below "
        "metrics_request_ms_max, so that the reason is answered.",
    )
    health_failure_ms: int = setting(
        600_000,
        minimum=0,
        doc="The broker is unhealthy for so long after work in its background has failed. It must be above "
        "housekeeping_interval_ms, so that what fails at every turn is always reported.",
    )
    node_id: int = setting(1, minimum=0, doc="Id of this broker in metadata answers.")
    auto_create_topics: bool = setting(True, doc="Create a topic when a client first asks for it.")
    default_partitions: int = setting(
        1, minimum=1, doc="Partitions of a topic that is created without a number."
    )

    connections_max: int = setting(
        2_000,
        minimum=1,
        doc="Open connections; one more is refused. Each costs a descriptor and some 20 KB. With a low limit of open "
        "files it is less: a quarter of the descriptors is left for segments.",
    )
    request_bytes_max: int = setting(
        104_857_600,
        minimum=1024,
        doc="Largest request; Kafka's socket.request.max.bytes. A larger one closes the connection.",
    )
    connection_requests_max: int = setting(
        100,
        minimum=1,
        doc="Requests of one connection that wait for an answer; reading stops until some are answered.",
    )
    connection_bytes_max: int = setting(
        134_217_728,
        minimum=1024,
        doc="Bytes of requests and unsent answers of one connection; reading stops above it.",
    )
    inflight_bytes_max: int = setting(
        536_870_912,
        minimum=1024,
        doc="Bytes of requests and unsent answers of all connections together. Above it, reading stops from those "
        "that hold more than their share (this bound divided by the number of connections), and their fetches are "
        "answered at once; at twice as much, the client with most untaken answers is hung up on. It also bounds the "
        "requests of which only a part has come: the largest one is closed.",
    )
    idle_connection_ms_max: int = setting(
        600_000, minimum=1000, doc="A connection without a request for so long is closed."
    )
    stuck_connection_ms_max: int = setting(
        60_000,
        minimum=100,
        doc="A client that takes no byte of its answers for so long is hung up on: what waits for it counts against "
        "inflight_bytes_max.",
    )
    client_quotas_max: int = setting(
        1_000,
        minimum=0,
        doc="Users, client ids and addresses that have quotas; one more is refused. Each change writes all of them.",
    )
    client_quota_window_ms: int = setting(
        10_000,
        minimum=1,
        doc="A client may send or receive at once what its byte rate allows in so long; Kafka averages over 10 s.",
    )
    waiting_fetches_max: int = setting(
        10_000, minimum=1, doc="Fetches that wait for data; one more is answered at once."
    )
    fetch_bytes_max: int = setting(
        57_671_680,
        minimum=1024,
        doc="Largest fetch answer, whatever the client asks for; Kafka's fetch.max.bytes.",
    )
    fetch_sessions_max: int = setting(
        1_000, minimum=0, doc="Fetch sessions kept; the idlest goes when one more is wanted."
    )
    fetch_sessions_bytes_max: int = setting(
        268_435_456,
        minimum=1024,
        doc="Memory of all fetch sessions, some 550 bytes for each partition; the idlest goes when more is wanted.",
    )
    partitions_max: int = setting(
        20_000, minimum=1, doc="Partitions of all topics; each costs an open file and some KB."
    )
    producer_ids_max: int = setting(
        100_000, minimum=1, doc="Idempotent producers remembered in each partition; the idlest goes first."
    )
    producer_id_expiration_ms: int = setting(
        86_400_000, minimum=1, doc="An idempotent producer that was silent for so long is forgotten."
    )
    decompressed_batch_bytes_max: int = setting(
        67_108_864,
        minimum=1024,
        doc="Largest batch after decompression, where the broker must look inside (compaction, recompression).",
    )
    batch_records_max: int = setting(
        BATCH_RECORDS_MAX,
        minimum=1,
        doc="Most records of a batch. A few compressed kilobytes can hold millions, and each costs time to look at; "
        "1 MiB of the smallest records with a key holds 131,072.",
    )
    compaction_map_entries_max: int = setting(
        2_000_000,
        minimum=1,
        doc="Keys that one compaction pass remembers; more keys take more passes. Some 120 bytes each.",
    )

    group_session_timeout_ms_min: int = setting(
        6_000, minimum=1, doc="Shortest session time-out that a group member may ask for."
    )
    group_session_timeout_ms_max: int = setting(
        1_800_000, minimum=1, doc="Longest session time-out that a group member may ask for."
    )
    group_initial_rebalance_delay_ms: int = setting(
        0,
        minimum=0,
        doc="How long an empty group waits for more members before its first assignment. Kafka waits 3 s; "
        "a test should not have to.",
    )
    group_members_max: int = setting(10_000, minimum=1, doc="Members of one group.")
    group_member_bytes_max: int = setting(
        2_097_152,
        minimum=1,
        doc="Largest metadata, assignment or subscription of a group member: names of 20,000 topics, and more.",
    )
    groups_bytes_max: int = setting(
        268_435_456,
        minimum=1,
        doc="Metadata, assignments and subscriptions of the members of all groups together; above it no more members "
        "join. They stay in memory until the member leaves or its session ends.",
    )
    group_new_member_join_timeout_ms: int = setting(
        300_000,
        minimum=1,
        doc="How long a first join may wait for its group. A client without an id sends no heartbeats, so this is "
        "what removes one that is gone.",
    )
    groups_max: int = setting(
        20_000, minimum=1, doc="Groups kept, with or without members; one more is refused. Some KB each."
    )
    client_metrics_max: int = setting(
        1_000,
        minimum=0,
        doc="Subscriptions to client metrics; one more is refused. Each change writes all of them.",
    )
    offsets_retention_ms: int = setting(
        604_800_000, minimum=1, doc="Committed offsets of a group without members are kept so long."
    )
    offset_metadata_bytes_max: int = setting(
        4_096, minimum=0, doc="Largest metadata text that may be committed with an offset."
    )

    transaction_timeout_ms_max: int = setting(
        900_000,
        minimum=1,
        doc="Longest time-out that a transactional producer may ask for. An open transaction holds up everybody who "
        "reads committed data only.",
    )
    transactional_ids_max: int = setting(
        100_000, minimum=1, doc="Transactional ids kept; one more is refused. Some 500 bytes each."
    )
    transactional_id_expiration_ms: int = setting(
        604_800_000, minimum=1, doc="A transactional id that was not used for so long is forgotten."
    )

    share_sessions_max: int = setting(
        10_000,
        minimum=1,
        doc="Members of share groups that fetch; one more is refused. Kafka allows 2,000; each costs some KB.",
    )
    share_record_lock_duration_ms: int = setting(
        30_000,
        minimum=100,
        doc="How long a record is locked in share groups that have no share.record.lock.duration.ms of their own; "
        "Kafka's group.share.record.lock.duration.ms.",
    )

    archive_address: str | None = setting(
        None,
        doc="Where closed segments of topics with remote.storage.enable=true are archived: a folder, which must exist, "
        "or any address that fsspec knows, such as s3://bucket/path (pip install 'headrace[archive]').",
    )
    archive_interval_ms: int = setting(
        30_000,
        minimum=10,
        doc="How often segments to archive, and archived ones to delete, are looked for; Kafka's "
        "remote.log.manager.task.interval.ms.",
    )
    archive_retry_ms_max: int = setting(
        300_000,
        minimum=10,
        doc="Longest pause after the archive has failed; pauses begin at archive_interval_ms and double.",
    )
    archive_chunk_bytes: int = setting(
        4_194_304,
        minimum=1024,
        doc="Pieces in which archived segments are checked and read: each costs a request to the archive.",
    )
    archive_cache_bytes_max: int = setting(
        1_073_741_824,
        minimum=0,
        doc="Bytes of archived segments kept on local disk for readers, in archive-cache of the data folder; what was "
        "unused for longest goes first.",
    )
    archive_read_threads: int = setting(
        4,
        minimum=1,
        doc="Threads that read from the archive: a slow one must not hold up reads of local disks.",
    )
    archive_upload_threads: int = setting(
        2, minimum=1, doc="Partitions whose segments are archived at the same time."
    )

    reserve_bytes: int = setting(
        1_048_576,
        minimum=0,
        doc="Room that the data folder keeps back in the file .reserve. On a full disk a stop and a start use it for "
        "their own small files; 0 keeps none.",
    )
    flush_threads: int = setting(4, minimum=1, doc="Threads that fsync; partitions share them.")
    inspection_threads: int = setting(
        2,
        minimum=1,
        doc="Threads that decompress batches before they are stored: keys on compacted topics, another codec.",
    )
    checkpoint_interval_ms: int = setting(
        60_000,
        minimum=100,
        doc="How often recovery points are written: bounds what a start after a crash reads again.",
    )
    housekeeping_interval_ms: int = setting(
        300_000,
        minimum=10,
        doc="How often retention and expiry are applied; Kafka's log.retention.check.interval.ms.",
    )
    compaction_interval_ms: int = setting(
        15_000, minimum=10, doc="How often the cleaner looks for compacted partitions with enough to clean."
    )
