"""The manifest of a bucket: its runs, their version, and the number of buckets."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, Struct, UnsetType, field

from headrace.errors import HeadraceError

FORMAT = 1


class _Format(Struct):
    format: int


class Manifest(Struct, frozen=True, kw_only=True):
    format: int = FORMAT
    version: int
    """The version of the step's columns."""
    buckets: int
    runs: tuple[str, ...] = ()
    """Oldest first."""
    timer_ms: int | None = field(default=None, name="timer")
    owner: str = ""
    """The operator that wrote the state: its name and a hash; empty if unknown."""
    expired: int | UnsetType = UNSET
    """The watermark in microseconds until which rows have expired, if the state is an `ExpiringTable`."""

    @property
    def expired_us(self) -> int | None:
        return None if isinstance(self.expired, UnsetType) else self.expired

    def to_json(self) -> str:
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str) -> Manifest:
        try:
            found = msgspec.json.decode(text, type=_Format).format
            if found != FORMAT:
                raise HeadraceError(
                    f"state format {found} is newer than the supported format {FORMAT}",
                    hint="upgrade headrace",
                )
            return msgspec.json.decode(text, type=cls)
        except msgspec.DecodeError as error:
            raise HeadraceError(
                f"this is not a state of Headrace: {text[:100]!r}",
                hint="does the checkpoint belong to another job?",
            ) from error

    def check(self, *, version: int, buckets: int, owner: str = "") -> None:
        if self.owner and owner and self.owner != owner:
            raise HeadraceError(
                f"the state was written by `{self.owner}` and can't be read by `{owner}`: the operator has changed",
                hint="restore the operator, or rebuild the state: another checkpoint, or --rebuild",
            )
        if self.buckets != buckets:
            raise HeadraceError(
                f"the state has {self.buckets} buckets, and the session is set to {buckets}",
                hint=f"set spark.headrace.state.buckets to {self.buckets}, or rebuild the state of the job",
            )
        if self.version > version:
            raise HeadraceError(
                f"state version {self.version} is newer than the supported version {version}",
                hint="upgrade headrace",
            )
