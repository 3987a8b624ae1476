"""The topics of a data folder: created, found, altered, deleted, and closed so that the next start is instant.

A topic is a small JSON file (`metadata/topics/NAME.json`: id, partitions, configs) and a folder per partition. The file
decides: it is written before the folders are created, and marked before they are deleted, so that the next start
completes what a crash interrupts. A start rejects a file that was changed, and folders with records of no known topic.
"""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial

from msgspec import Struct, field

from headrace.broker.configs.topic_configs import check_archive_configs, check_configs, log_config
from headrace.broker.internal_topics import (
    INTERNAL_TOPICS,
    REASONS_TOPIC,
    check_internal_configs,
    check_internal_partitions,
    with_fixed_configs,
)
from headrace.broker.partition import Partition
from headrace.broker.partition_checkpoints import PartitionCheckpoints
from headrace.broker.rejections import RequestRejected
from headrace.broker.runtime import Runtime
from headrace.broker.topic_files import ArchiveDeletions, SavedTopic, TopicFiles
from headrace.broker.turns import Steps, run_to_end
from headrace.errors import HeadraceError
from headrace.log.archive.archived_files import Archive
from headrace.log.archive.partition_archive import PartitionArchive
from headrace.log.checkpoints import CleanStop
from headrace.log.config import LogConfig
from headrace.log.partition_log import PartitionLog
from headrace.protocol.error_codes import ErrorCode
from headrace.topic_names import InvalidTopicName, check_topic_name

logger = logging.getLogger(__name__)

_topic_exists = partial(RequestRejected, ErrorCode.TOPIC_ALREADY_EXISTS)
_invalid_partitions = partial(RequestRejected, ErrorCode.INVALID_PARTITIONS)


class Topic(Struct, kw_only=True):
    name: str
    id: uuid.UUID
    configs: dict[str, str]
    partitions: list[Partition] = field(default_factory=list)

    @property
    def is_internal(self) -> bool:
        return self.name in INTERNAL_TOPICS

    @property
    def takes_records(self) -> bool:
        """Whether clients may write to it."""
        return not self.is_internal or self.name == REASONS_TOPIC

    @property
    def partition_count(self) -> int:
        return len(self.partitions)

    def partition(self, index: int) -> Partition | None:
        return self.partitions[index] if 0 <= index < len(self.partitions) else None


class Topics:
    def __init__(self, runtime: Runtime, archive: Archive) -> None:
        self._settings = runtime.settings
        self._archive = archive
        self._files = runtime.files
        self._clock = runtime.clock
        self._data_dir = str(self._settings.data_dir)
        self._topic_files = TopicFiles(self._files, self._data_dir)
        self.archive_deletions = ArchiveDeletions(self._files, self._data_dir)
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[uuid.UUID, Topic] = {}
        # Topics that are being created, extended or deleted, with the number of their partitions afterwards.
        self._changing: dict[str, int] = {}
        self.version = 0
        """Grows when a topic is created, extended or deleted: then groups have to assign partitions again."""
        self._checkpoints = PartitionCheckpoints(self._files, self._data_dir)

    # Looking up

    def __iter__(self) -> Iterator[Topic]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def get(self, name: str) -> Topic | None:
        return self._by_name.get(name)

    def get_by_id(self, topic_id: uuid.UUID) -> Topic | None:
        return self._by_id.get(topic_id)

    def partition(self, name: str, index: int) -> Partition | None:
        topic = self._by_name.get(name)
        return None if topic is None else topic.partition(index)

    def partitions(self) -> Iterator[Partition]:
        """Of all topics. Copies the lists, because metrics call this from another thread."""
        for topic in tuple(self._by_name.values()):
            yield from tuple(topic.partitions)

    @property
    def partition_count(self) -> int:
        return sum(len(topic.partitions) for topic in self._by_name.values())

    @property
    def largest_producer_id(self) -> int:
        """Of all producers that the logs know; -1 for none."""
        ids = (
            producer_id for each in self.partitions() for producer_id, _ in each.log.producers.by_id.items()
        )
        return max(ids, default=-1)

    def internal(self, name: str) -> Topic:
        """An internal topic, created when it is first needed."""
        return self._by_name.get(name) or run_to_end(self._creating(name, 1, INTERNAL_TOPICS[name]))

    def default_partition_count(self, name: str) -> int:
        return 1 if name in INTERNAL_TOPICS else self._settings.default_partitions

    # Changing

    def create(self, name: str, partitions: int, configs: Mapping[str, str]) -> Topic:
        return run_to_end(self.creating(name, partitions, configs))

    def creating(self, name: str, partitions: int, configs: Mapping[str, str]) -> Steps[Topic]:
        """Create a topic, a partition at a time. Clients see it when it is complete."""
        self.check_creation(name, partitions, configs)
        return self._creating(name, partitions, with_fixed_configs(name, configs))

    def check_creation(self, name: str, partitions: int, configs: Mapping[str, str]) -> None:
        """Raise what `create` would raise, and change nothing."""
        check_topic_name(name)
        if name in self._changing:
            raise _topic_exists(f"Topic '{name}' is being created or deleted.", hint="try again later")
        if name in self._by_name:
            raise _topic_exists(f"Topic '{name}' already exists.", hint="use it, or choose another name")
        # Metrics write '.' as '_', so two such names would be the same there.
        twin = next(
            (other for other in self._by_name if other.replace(".", "_") == name.replace(".", "_")), None
        )
        if twin is not None:
            raise InvalidTopicName(
                f"{name!r} and the existing {twin!r} differ only in '.' and '_'", hint="choose another name"
            )
        if partitions < 1:
            raise _invalid_partitions(
                f"a topic can't have {partitions} partitions", hint="give it at least one"
            )
        check_internal_partitions(name, partitions)
        self._check_room(partitions)
        self._check_configs(name, configs, was_archived=False)

    def check_growth(self, topic: Topic, count: int) -> None:
        """Raise what `growing` would raise, and change nothing."""
        self._check_unchanging(topic)
        if count <= len(topic.partitions):
            raise _invalid_partitions(
                f"Topic already has {len(topic.partitions)} partitions, so {count} is no increase.",
                hint="partitions can only be added",
            )
        check_internal_partitions(topic.name, count)
        self._check_room(count - len(topic.partitions))

    def growing(self, topic: Topic, count: int) -> Steps[None]:
        """Add partitions, one at a time."""
        self.check_growth(topic, count)
        self._save(topic, count)
        try:
            yield from self._adding_partitions(topic, count)
        finally:
            self.version += 1

    def _adding_partitions(self, topic: Topic, count: int) -> Steps[None]:
        self._changing[topic.name] = count
        try:
            for index in range(len(topic.partitions), count):
                self._checkpoints.prepare((topic.name, index))
                topic.partitions.append(self._open(topic, index))
                yield
        finally:
            del self._changing[topic.name]

    def _check_unchanging(self, topic: Topic) -> None:
        if topic.name in self._changing:
            raise _invalid_partitions(
                f"Topic '{topic.name}' is being given more partitions.", hint="try again later"
            )

    def alter_configs(self, topic: Topic, configs: Mapping[str, str]) -> None:
        """Replace the topic's configs by these."""
        self.check_alteration(topic, configs)
        self._set_configs(topic, with_fixed_configs(topic.name, configs))

    def _set_configs(self, topic: Topic, configs: dict[str, str]) -> None:
        topic.configs = configs
        self._save(topic, self._changing.get(topic.name, len(topic.partitions)))
        for partition in topic.partitions:
            partition.log.reconfigure(self._log_config(topic))

    def check_alteration(self, topic: Topic, configs: Mapping[str, str]) -> None:
        """Raise what `alter_configs` would raise, and change nothing."""
        was_archived = any(partition.log.config.is_archived for partition in topic.partitions)
        self._check_configs(topic.name, configs, was_archived=was_archived)

    def _check_configs(self, name: str, configs: Mapping[str, str], *, was_archived: bool) -> None:
        check_configs(configs)
        check_internal_configs(name, configs)
        can_archive = self._archive.is_configured and name not in INTERNAL_TOPICS
        check_archive_configs(configs, was_archived=was_archived, can_archive=can_archive or was_archived)

    def delete(self, topic: Topic) -> None:
        run_to_end(self.deleting(topic))

    def deleting(self, topic: Topic) -> Steps[None]:
        """Delete a topic, a partition at a time. Clients do not see it from the first step on."""
        self._check_unchanging(topic)
        self._save(topic, len(topic.partitions), is_deleting=True)
        if any(partition.has_archive for partition in topic.partitions):
            self.archive_deletions.note(topic.id, topic.name)
        del self._by_name[topic.name]
        del self._by_id[topic.id]
        self.version += 1
        self._changing[topic.name] = 0
        try:
            for partition in topic.partitions:
                partition.log.delete()
                partition.deleted()
                self._checkpoints.forget(partition.name)
                yield
            self._topic_files.remove(topic.name, topic.id)
        finally:
            del self._changing[topic.name]

    def _creating(self, name: str, partitions: int, configs: Mapping[str, str]) -> Steps[Topic]:
        topic = Topic(name=name, id=uuid.uuid4(), configs=dict(configs))
        self._save(topic, partitions)
        try:
            yield from self._adding_partitions(topic, partitions)
        except OSError:
            for partition in topic.partitions:
                with suppress(OSError):  # it is empty and may stay
                    partition.log.delete()
            self._topic_files.remove(topic.name, topic.id)
            raise
        self._by_name[name] = topic
        self._by_id[topic.id] = topic
        self.version += 1
        logger.info("topic created", extra={"topic": name, "partitions": partitions})
        return topic

    def _check_room(self, added: int) -> None:
        if self.partition_count + sum(self._changing.values()) + added > self._settings.partitions_max:
            raise RequestRejected(
                ErrorCode.POLICY_VIOLATION,
                f"{added} more partitions would pass the bound of {self._settings.partitions_max}",
                hint="raise partitions_max, or delete topics",
            )

    # On disk

    def load(self) -> None:
        """Open every topic of the data folder; after a crash this reads what follows the recovery points."""
        self._checkpoints.load()
        self._remove_deleted_folders()
        for saved in self._topic_files.read_all():
            self._load_topic(saved)
        self._checkpoints.loaded()
        self._topic_files.reject_unknown_folders({topic.name: topic.partition_count for topic in self})
        for name in self._checkpoints.names():
            if self.partition(*name) is None:
                self._checkpoints.forget(name)

    def _load_topic(self, saved: SavedTopic) -> None:
        topic = Topic(name=saved.name, id=saved.id, configs=dict(saved.configs))
        if saved.is_deleting:
            for index in range(saved.partitions):  # the rest of its files is no damage
                self._checkpoints.forget((topic.name, index))
        topic.partitions = [self._open(topic, index) for index in range(saved.partitions)]
        if topic.is_internal:
            self._correct_internal(topic)
        self._by_name[topic.name] = topic
        self._by_id[topic.id] = topic
        if saved.is_deleting:
            self.delete(topic)

    def _correct_internal(self, topic: Topic) -> None:
        """Correct a topic that a client of an older broker has created, with other settings."""
        surplus = [] if topic.name == REASONS_TOPIC else topic.partitions[1:]
        filled = [partition for partition in surplus if partition.log.end_offset > 0]
        if filled:
            raise HeadraceError(
                f"the internal topic {topic.name} has records in {filled[0]}, which the broker does not use",
                hint=f"move the folder {filled[0]} out of {self._data_dir}; the broker keeps its state in partition 0",
            )
        configs = with_fixed_configs(topic.name, topic.configs)
        if configs == topic.configs and not surplus:
            return
        logger.warning(
            "internal topic had other settings than the broker's; they are corrected",
            extra={"topic": topic.name, "partitions": len(topic.partitions), "configs": topic.configs},
        )
        # Folders are deleted first: after a crash, the next start creates them again, empty, and gets here again.
        for partition in surplus:
            partition.log.delete()
            topic.partitions.remove(partition)
        self._set_configs(topic, configs)

    def _open(self, topic: Topic, index: int) -> Partition:
        log = PartitionLog.open(
            os.path.join(self._data_dir, f"{topic.name}-{index}"),
            self._log_config(topic),
            self._checkpoints.get((topic.name, index)),
            files=self._files,
            clock=self._clock,
            partition_archive=PartitionArchive(
                self._archive, topic=topic.name, topic_id=topic.id, partition=index
            ),
        )
        return Partition(topic.name, index, log, reads_unflushed=self._settings.durability == "os")

    def checkpoint(self) -> None:
        """Write how much of each log is durable: a start after a crash reads only what follows."""
        for partition in self.partitions():
            recovery_offset = partition.log.checkpoint(self._clock.now_ms())
            self._checkpoints.put(
                partition.name, start_offset=partition.log.start_offset, recovery_offset=recovery_offset
            )
        self._checkpoints.write()

    def checkpoint_starts(self) -> None:
        """Write where each log starts, after records were deleted."""
        for partition in self.partitions():
            self._checkpoints.put(partition.name, start_offset=partition.log.start_offset)
        self._checkpoints.write()

    def close(self) -> None:
        """Close every log; the stop is clean if none of them fails."""
        failed = 0
        stops: dict[tuple[str, int], CleanStop] = {}
        for partition in self.partitions():
            try:
                stop = stops[partition.name] = partition.log.close()
            except (OSError, HeadraceError) as error:
                failed += 1
                logger.warning(
                    "log not closed cleanly: the next start checks it",
                    extra={"partition": str(partition), "reason": str(error)},
                )
                continue
            self._checkpoints.put(
                partition.name, start_offset=stop.start_offset, recovery_offset=stop.end_offset
            )
        try:
            self._checkpoints.write()
            if not failed:
                self._checkpoints.mark_clean_stop(stops)
        except OSError as error:
            logger.warning(
                "checkpoints not written: the next start checks all logs", extra={"reason": str(error)}
            )

    def _log_config(self, topic: Topic) -> LogConfig:
        settings = self._settings
        return log_config(
            topic.configs,
            decompressed_bytes_max=settings.decompressed_batch_bytes_max,
            batch_records_max=settings.batch_records_max,
            producer_ids_max=settings.producer_ids_max,
            producer_id_expiration_ms=settings.producer_id_expiration_ms,
        )

    def _save(self, topic: Topic, partitions: int, *, is_deleting: bool = False) -> None:
        saved = SavedTopic(
            name=topic.name,
            id=topic.id,
            partitions=partitions,
            configs=topic.configs,
            is_deleting=is_deleting,
        )
        self._topic_files.write(saved)

    def _remove_deleted_folders(self) -> None:
        for name in os.listdir(self._data_dir):
            folder = os.path.join(self._data_dir, name)
            if name.endswith("-delete") and os.path.isdir(folder):
                for file_name, _ in self._files.list_directory(folder):
                    self._files.remove(os.path.join(folder, file_name))
                self._files.remove_directory(folder)
