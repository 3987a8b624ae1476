"""The settings of a broker as keywords of `Broker`, for editors and type checkers. `BrokerSettings` documents them."""

from __future__ import annotations

from typing import TypedDict

from headrace.broker.settings import Durability


class BrokerOptions(TypedDict, total=False):
    """Every setting but `data_dir` and `port`, which `Broker` has defaults of its own for."""

    host: str
    insecure: bool
    advertised: str | None
    durability: Durability
    metrics_port: int | None
    metrics_connections_max: int
    metrics_request_ms_max: int
    health_free_bytes_min: int
    health_disk_ms_max: int
    health_failure_ms: int
    node_id: int
    auto_create_topics: bool
    default_partitions: int
    connections_max: int
    request_bytes_max: int
    connection_requests_max: int
    connection_bytes_max: int
    inflight_bytes_max: int
    idle_connection_ms_max: int
    stuck_connection_ms_max: int
    client_quotas_max: int
    client_quota_window_ms: int
    waiting_fetches_max: int
    fetch_bytes_max: int
    fetch_sessions_max: int
    fetch_sessions_bytes_max: int
    partitions_max: int
    producer_ids_max: int
    producer_id_expiration_ms: int
    decompressed_batch_bytes_max: int
    batch_records_max: int
    compaction_map_entries_max: int
    group_session_timeout_ms_min: int
    group_session_timeout_ms_max: int
    group_initial_rebalance_delay_ms: int
    group_members_max: int
    group_member_bytes_max: int
    groups_bytes_max: int
    group_new_member_join_timeout_ms: int
    groups_max: int
    client_metrics_max: int
    offsets_retention_ms: int
    offset_metadata_bytes_max: int
    transaction_timeout_ms_max: int
    transactional_ids_max: int
    transactional_id_expiration_ms: int
    share_sessions_max: int
    share_record_lock_duration_ms: int
    archive_address: str | None
    archive_interval_ms: int
    archive_retry_ms_max: int
    archive_chunk_bytes: int
    archive_cache_bytes_max: int
    archive_read_threads: int
    archive_upload_threads: int
    reserve_bytes: int
    flush_threads: int
    inspection_threads: int
    checkpoint_interval_ms: int
    housekeeping_interval_ms: int
    compaction_interval_ms: int
