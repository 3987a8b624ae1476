"""The settings of a broker, with the reason for each limit."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from headrace.records.record import BATCH_RECORDS_MAX
from headrace.settings import setting

Durability = Literal["fsync", "os"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    data_dir: Path = setting(Path("data"), doc="Folder of all data. One broker at a time uses it.")
    host: str = setting(
        "127.0.0.1",
        doc="Address to listen on, of the broker and of its metrics. An address other than loopback needs `insecure`: "
        "there is no authentication yet.",
    )
    insecure: bool = setting(
        False,
        doc="Allow an address that other machines reach. Each of them can then read, write and delete everything; "
        "the broker logs a warning at every start.",
    )
    port: int = setting(9092, minimum=0, doc="Port to listen on; 0 takes a free one and prints it.")
    advertised: str | None = setting(
        None,
        doc="HOST:PORT that clients get in metadata. By default each client gets the address that it connected to, "
        "which is right unless a proxy or NAT rewrites addresses.",
    )
    durability: Durability = setting(
        "fsync",
        doc="fsync: acknowledged means on disk; many requests share one fsync. os: acknowledged means in the "
        "page cache, which survives a crash of the broker but not of the machine.",
    )
    metrics_port: int | None = setting(
        None, minimum=0, doc="Port of the HTTP page with Prometheus metrics and health; none by default."
    )
    metrics_connections_max: int = setting(
        32,
        minimum=1,
        doc="Open connections to metrics_port; one more closes the oldest. A scraper needs one.",
    )
    metrics_request_ms_max: int = setting(
        10_000,
        minimum=10,
        doc="A request to metrics_port that takes longer is closed; Prometheus waits as long.",
    )
    health_free_bytes_min: int = setting(
        67_108_864,
        minimum=0,
        doc="The broker is unhealthy if the data folder's disk has less free space: time to act before writes fail.",
    )
    health_disk_ms_max: int = setting(
        5_000,
        minimum=10,
        doc="The broker is unhealthy if its disk takes longer to write a small file. It must be below "
        "metrics_request_ms_max, so that /health can respond with the reason.",
    )
    health_failure_ms: int = setting(
        600_000,
        minimum=0,
        doc="The broker is unhealthy for this long after background work has failed. It must be above "
        "housekeeping_interval_ms, so that work that fails every time is always reported.",
    )
    node_id: int = setting(1, minimum=0, doc="Id of this broker in metadata.")
    auto_create_topics: bool = setting(True, doc="Create a topic when a client first requests it.")
    default_partitions: int = setting(
        1, minimum=1, doc="Partitions of a topic that is created without a number."
    )

    connections_max: int = setting(
        2_000,
        minimum=1,
        doc="Open connections; one more is rejected. Each takes a descriptor and some 20 KB. With a low limit of open "
        "files there are fewer: a quarter of the descriptors is reserved for segments.",
    )
    request_bytes_max: int = setting(
        104_857_600,
        minimum=1024,
        doc="Largest request; Kafka's socket.request.max.bytes. A larger one closes the connection.",
    )
    connection_requests_max: int = setting(
        100,
        minimum=1,
        doc="Requests in flight of one connection; at this number the broker reads no more until it sends a response.",
    )
    connection_bytes_max: int = setting(
        134_217_728,
        minimum=1024,
        doc="Bytes of requests and unsent responses of one connection; above it the broker reads no more from it.",
    )
    inflight_bytes_max: int = setting(
        536_870_912,
        minimum=1024,
        doc="Bytes of requests and unsent responses of all connections together. Above it, the broker reads no more "
        "from those that hold more than their share (this limit divided by the number of connections), and responds "
        "to their waiting fetches immediately; at twice as much, it closes the connection with the most unsent bytes. "
        "It also limits requests that are received in part: the connection with the largest is closed.",
    )
    idle_connection_ms_max: int = setting(
        600_000, minimum=1000, doc="A connection without a request for this long is closed."
    )
    stuck_connection_ms_max: int = setting(
        60_000,
        minimum=100,
        doc="A connection whose client receives no byte of its responses for this time is closed: they count against "
        "inflight_bytes_max.",
    )
    client_quotas_max: int = setting(
        1_000,
        minimum=0,
        doc="Users, client ids and addresses that have quotas; one more is rejected. Each change writes all of them.",
    )
    client_quota_window_ms: int = setting(
        10_000,
        minimum=1,
        doc="A client may send or receive in a burst what its byte rate allows in this time. Kafka averages over 10 s.",
    )
    waiting_fetches_max: int = setting(
        10_000, minimum=1, doc="Fetches that wait for data; one more gets its response immediately."
    )
    fetch_bytes_max: int = setting(
        57_671_680,
        minimum=1024,
        doc="Largest response to a fetch, even if the client requests more; Kafka's fetch.max.bytes.",
    )
    fetch_sessions_max: int = setting(
        1_000, minimum=0, doc="Fetch sessions; one more evicts the session that was idle for longest."
    )
    fetch_sessions_bytes_max: int = setting(
        268_435_456,
        minimum=1024,
        doc="Memory of all fetch sessions, some 550 bytes for each partition; above it the idlest session is evicted.",
    )
    partitions_max: int = setting(
        20_000, minimum=1, doc="Partitions of all topics; each takes an open file and some KB."
    )
    producer_ids_max: int = setting(
        100_000, minimum=1, doc="Idempotent producers kept for each partition; the idlest is evicted first."
    )
    producer_id_expiration_ms: int = setting(
        86_400_000,
        minimum=1,
        doc="The state of an idempotent producer expires after this time without a batch.",
    )
    decompressed_batch_bytes_max: int = setting(
        67_108_864,
        minimum=1024,
        doc="Largest batch after decompression, if the broker must read its records (compaction, recompression).",
    )
    batch_records_max: int = setting(
        BATCH_RECORDS_MAX,
        minimum=1,
        doc="Most records of a batch. A few compressed kilobytes can hold millions, and each takes time to check; "
        "1 MiB of the smallest records with a key holds 131,072.",
    )
    compaction_map_entries_max: int = setting(
        2_000_000,
        minimum=1,
        doc="Keys that one compaction pass keeps in memory; more keys take more passes. Some 120 bytes each.",
    )

    group_session_timeout_ms_min: int = setting(
        6_000, minimum=1, doc="Shortest session timeout that a group member may request."
    )
    group_session_timeout_ms_max: int = setting(
        1_800_000, minimum=1, doc="Longest session timeout that a group member may request."
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
        doc="How long a first join may wait for its group. A client without an id sends no heartbeats, so only this "
        "removes a client that has disconnected.",
    )
    groups_max: int = setting(
        20_000, minimum=1, doc="Groups, with or without members; one more is rejected. Some KB each."
    )
    client_metrics_max: int = setting(
        1_000,
        minimum=0,
        doc="Subscriptions to client metrics; one more is rejected. Each change writes all of them.",
    )
    offsets_retention_ms: int = setting(
        604_800_000, minimum=1, doc="How long committed offsets of a group without members are kept."
    )
    offset_metadata_bytes_max: int = setting(
        4_096, minimum=0, doc="Largest metadata text that may be committed with an offset."
    )

    transaction_timeout_ms_max: int = setting(
        900_000,
        minimum=1,
        doc="Longest timeout that a transactional producer may request. An open transaction delays all consumers that "
        "read committed data only.",
    )
    transactional_ids_max: int = setting(
        100_000, minimum=1, doc="Transactional ids; one more is rejected. Some 500 bytes each."
    )
    transactional_id_expiration_ms: int = setting(
        604_800_000, minimum=1, doc="A transactional id expires after this time without use."
    )

    share_sessions_max: int = setting(
        10_000,
        minimum=1,
        doc="Members of share groups that fetch; one more is rejected. Kafka allows 2,000; each takes some KB.",
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
        doc="How often closed segments are archived and expired ones deleted; Kafka's "
        "remote.log.manager.task.interval.ms.",
    )
    archive_retry_ms_max: int = setting(
        300_000,
        minimum=10,
        doc="Longest back-off after a failure of the archive; it starts at archive_interval_ms and doubles.",
    )
    archive_chunk_bytes: int = setting(
        4_194_304,
        minimum=1024,
        doc="Size of the pieces in which archived segments are checked and read; each takes a request to the archive.",
    )
    archive_cache_bytes_max: int = setting(
        1_073_741_824,
        minimum=0,
        doc="Bytes of archived segments cached on local disk, in archive-cache of the data folder; the least recently "
        "used are evicted first.",
    )
    archive_read_threads: int = setting(
        4,
        minimum=1,
        doc="Threads that read from the archive, so that a slow archive does not delay reads of local disks.",
    )
    archive_upload_threads: int = setting(
        2, minimum=1, doc="Partitions whose segments are archived at the same time."
    )

    reserve_bytes: int = setting(
        1_048_576,
        minimum=0,
        doc="Disk space that the data folder reserves in the file .reserve. On a full disk a stop and a start use it "
        "for their own small files; 0 keeps none.",
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
        doc="How often recovery points are written: limits what a start after a crash has to read.",
    )
    housekeeping_interval_ms: int = setting(
        300_000,
        minimum=10,
        doc="How often retention and expiry are applied; Kafka's log.retention.check.interval.ms.",
    )
    compaction_interval_ms: int = setting(
        15_000,
        minimum=10,
        doc="How often compacted partitions are checked for enough new records to compact.",
    )
