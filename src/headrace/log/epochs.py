"""Leader epochs of a partition: which records were written under which, in Kafka's `leader-epoch-checkpoint`.

There is only one leader. A new epoch starts after each crash: the crash may have lost records that a reader has seen,
and the reader notices by the new epoch.
"""

from __future__ import annotations

from headrace.log import checkpoints
from headrace.log.checkpoints import EpochStart
from headrace.log.errors import InvalidFile
from headrace.log.folder import PartitionFolder


class LeaderEpochs:
    """`starts` is oldest first; empty if none is known."""

    def __init__(self, folder: PartitionFolder) -> None:
        self._folder = folder
        self._path = folder.file_path(checkpoints.LEADER_EPOCH_NAME)
        self.starts: list[EpochStart] = []
        self.current = 0

    def load(self) -> None:
        try:
            self.starts = checkpoints.read_epochs(self._folder.files, self._path)
        except InvalidFile as error:
            self._folder.on_event("leader_epochs_ignored", {"path": self._path, "reason": str(error)})
        self.current = self.starts[-1].epoch if self.starts else 0

    def start_first(self, start_offset: int) -> None:
        """Not synced: without this file, recovery uses the epochs of the batches."""
        self.starts = [EpochStart(epoch=0, start_offset=start_offset)]
        checkpoints.write_epochs(self._folder.files, self._path, self.starts, durable=False)

    def start_next(self, end_offset: int, *, epoch_seen: int) -> None:
        """Durable before a batch has it: recovery reports a batch with an unknown epoch as damage."""
        while self.starts and self.starts[-1].start_offset >= end_offset:
            self.starts.pop()
        self.current = max(self.current, epoch_seen) + 1
        self.starts.append(EpochStart(epoch=self.current, start_offset=end_offset))
        checkpoints.write_epochs(self._folder.files, self._path, self.starts)

    def end_of(self, epoch: int, *, start_offset: int, end_offset: int) -> tuple[int, int]:
        """(largest epoch not above this one, its end offset); (-1, -1) if the epoch is in the future."""
        if epoch > self.current:
            return -1, -1
        if epoch == self.current:
            return epoch, end_offset
        found = epoch
        for entry in self.starts:
            if entry.epoch > epoch:
                return found, max(entry.start_offset, start_offset)
            found = entry.epoch
        return found, end_offset
