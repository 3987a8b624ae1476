"""DescribeLogDirs: how much disk partitions take, by folder.

2: flexible. 3: an error for the whole. 4: size of the disk and what is free of it. 5: whether the folder is cordoned.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import Bool, Int16, Int32, Int64, String, message, since


class DescribableLogDirTopic(Struct, frozen=True, kw_only=True):
    topic: String
    partitions: tuple[Int32, ...]


@message(ApiKey.DESCRIBE_LOG_DIRS, versions=(1, 5), flexible_since=2)
class DescribeLogDirsRequest(Struct, frozen=True, kw_only=True):
    topics: tuple[DescribableLogDirTopic, ...] | None


class DescribeLogDirsPartition(Struct, frozen=True, kw_only=True):
    partition_index: Int32
    partition_size: Int64
    offset_lag: Int64
    is_future_key: Bool


class DescribeLogDirsTopic(Struct, frozen=True, kw_only=True):
    name: String
    partitions: tuple[DescribeLogDirsPartition, ...]


class DescribeLogDirsResult(Struct, frozen=True, kw_only=True):
    error_code: Int16
    log_dir: String
    topics: tuple[DescribeLogDirsTopic, ...]
    total_bytes: Annotated[Int64, since(4)] = -1
    usable_bytes: Annotated[Int64, since(4)] = -1
    is_cordoned: Annotated[Bool, since(5)] = False


@message(ApiKey.DESCRIBE_LOG_DIRS, versions=(1, 5), flexible_since=2)
class DescribeLogDirsResponse(Struct, frozen=True, kw_only=True):
    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, since(3)] = 0
    results: tuple[DescribeLogDirsResult, ...] = ()
