"""A lock in a folder that several machines reach: a lease, which its holder renews.

    lock/00000001.json   the first holder
    lock/00000002.json   the next one, which created it when the first had released its lease or had stopped renewing it

The number is the epoch: of several processes that want the next one, the store lets one create it. A holder that was
paused for too long finds a file with a greater epoch, or cannot renew in time, and has lost the lock. So no store has
to compare and swap, and the clocks of the machines do not matter: a process that waits for a lease watches for how long
the count of its renewals stays the same.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
import uuid
from pathlib import Path

import msgspec
from msgspec import Struct

from headrace.clock import SystemClock
from headrace.pipeline.folders.folder import Folder

logger = logging.getLogger("headrace.pipeline")

RENEW_S = 5.0
"""Each renewal writes a small file."""

EXPIRY_S = 30.0
"""A holder that has not renewed for so long has ended. A garbage collection or a slow store takes less."""

GIVE_UP_S = 20.0
"""A holder that could not renew for so long stops: before another process may take the lease."""

LOOK_S = 0.5

SHOWN_AS_TAKEN_S = 2 * EXPIRY_S
"""For a look at the lock by the clock, which may differ by some seconds between machines."""

assert RENEW_S < GIVE_UP_S < EXPIRY_S


class Holder(Struct, frozen=True, kw_only=True):
    """The content of a lease."""

    owner: str
    host: str
    pid: int
    machine: str = ""
    """Where process ids are those of this process; empty if that is unknown."""
    taken_ms: int
    renewed_ms: int
    renewals: int = 0
    is_released: bool = False

    def in_words(self) -> str:
        return f"process {self.pid} on {self.host}"


class Lease:
    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._clock = SystemClock()
        self._epoch = 0
        self._own: Holder | None = None
        self._loss = ""
        self._renewed_s = 0.0
        self._released = threading.Event()
        self._thread: threading.Thread | None = None

    def take(self) -> bool:
        """Waits until it is known whether the last holder is alive: for EXPIRY_S at most."""
        epoch, holder = self._newest()
        if holder is not None and self._is_alive(holder) and self._renews(epoch, holder):
            return False
        own = self._new_holder()
        if not self._folder.create(_file(epoch + 1), msgspec.json.encode(own)):
            return False
        # A store without conditional writes lets two processes create it, and keeps the last.
        written = self._read(epoch + 1)
        if written is None or written.owner != own.owner:
            return False
        self._own, self._epoch, self._loss = own, epoch + 1, ""
        _held.add(own.owner)
        self._renewed_s = self._clock.monotonic_s()
        self._delete_before(epoch + 1)
        self._released.clear()
        self._thread = threading.Thread(
            target=self._keep, name=f"headrace-lease-{self._folder.name}", daemon=True
        )
        self._thread.start()
        return True

    def release(self) -> None:
        own, self._own = self._own, None
        if own is None:
            return
        self._released.set()
        if self._thread is not None:
            self._thread.join()
        if not self._loss:
            try:
                self._write(msgspec.structs.replace(own, is_released=True))
            except Exception as error:
                logger.warning("the lease %s was not released, and expires: %s", self._folder.address, error)
        _held.discard(own.owner)

    def is_taken(self) -> bool:
        if self._own is not None:
            return not self._loss
        _, holder = self._newest()
        if holder is None or not self._is_alive(holder):
            return False
        return self._clock.now_ms() - holder.renewed_ms < SHOWN_AS_TAKEN_S * 1_000

    def holder(self) -> str:
        _, holder = self._newest()
        return "" if holder is None or holder.is_released else holder.in_words()

    def loss(self) -> str:
        if self._own is None or self._loss:
            return self._loss
        if self._clock.monotonic_s() - self._renewed_s > GIVE_UP_S:
            self._loss = f"the lease could not be renewed for {GIVE_UP_S:.0f} s"
        return self._loss

    def _new_holder(self) -> Holder:
        now_ms = self._clock.now_ms()
        return Holder(
            owner=str(uuid.uuid4()),
            host=socket.gethostname(),
            pid=os.getpid(),
            machine=_machine(),
            taken_ms=now_ms,
            renewed_ms=now_ms,
        )

    def _keep(self) -> None:
        while not self._released.wait(RENEW_S) and not self.loss():
            try:
                self._renew()
            except Exception as error:
                logger.warning("the lease %s was not renewed: %s", self._folder.address, error)

    def _renew(self) -> None:
        """The time counts from before the look: another process may take the lease after it."""
        began_s = self._clock.monotonic_s()
        epoch, holder = self._newest()
        if epoch > self._epoch:
            self._loss = f"{holder.in_words() if holder else 'another process'} has taken the lease"
            return
        own = self._own
        if own is None:
            return
        self._own = msgspec.structs.replace(own, renewals=own.renewals + 1, renewed_ms=self._clock.now_ms())
        self._write(self._own)
        self._renewed_s = began_s

    def _renews(self, epoch: int, holder: Holder) -> bool:
        """Whether a holder renews its lease, or another one takes it, before it expires."""
        until_s = self._clock.monotonic_s() + EXPIRY_S
        while self._clock.monotonic_s() < until_s:
            time.sleep(LOOK_S)
            latest, now = self._newest()
            if latest != epoch:
                return True
            if now is None or now.is_released:
                return False
            if now.renewals != holder.renewals:
                return True
        return False

    def _is_alive(self, holder: Holder) -> bool:
        """Whether the holder may be alive: its process is another machine's, or runs on this one."""
        if holder.is_released:
            return False
        if not holder.machine or holder.machine != _machine():
            return True
        if holder.pid == os.getpid():
            return holder.owner in _held
        try:
            os.kill(holder.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True

    def _newest(self) -> tuple[int, Holder | None]:
        """The greatest epoch, 0 if there is none, and its holder."""
        epoch = max(self._epochs(), default=0)
        return epoch, self._read(epoch) if epoch else None

    def _epochs(self) -> list[int]:
        stems = (name.removesuffix(".json") for name in self._folder.names() if name.endswith(".json"))
        return [int(stem) for stem in stems if stem.isdecimal()]

    def _read(self, epoch: int) -> Holder | None:
        try:
            return msgspec.json.decode(self._folder.read(_file(epoch)), type=Holder)
        except (FileNotFoundError, msgspec.DecodeError):
            return None

    def _write(self, holder: Holder) -> None:
        self._folder.write(_file(self._epoch), msgspec.json.encode(holder))

    def _delete_before(self, epoch: int) -> None:
        for each in self._epochs():
            if each < epoch:
                self._folder.delete(_file(each))


_held: set[str] = set()
"""The owners of the leases of this process."""


def _file(epoch: int) -> str:
    return f"{epoch:08}.json"


def _machine() -> str:
    """The same for all processes that see each other's ids: the boot of the kernel, and the namespace of its ids."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return ""
