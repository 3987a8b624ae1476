"""One durable, append-only partition on disk: segments, indexes, recovery, retention, compaction.

Nothing here knows of sockets, topics or asyncio. `partition_log.PartitionLog` is the interface; the other modules are
its parts.
"""
