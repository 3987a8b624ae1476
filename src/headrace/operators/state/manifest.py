"""The manifest of a bucket: its runs, their version, and the number of buckets."""

from __future__ import annotations

import json

from msgspec import Struct

from headrace.errors import HeadraceError

FORMAT = 1


class Manifest(Struct, frozen=True, kw_only=True):
    version: int
    """The version of the step's columns."""
    buckets: int
    runs: tuple[str, ...] = ()
    """Oldest first."""
    timer_ms: int | None = None
    owner: str = ""
    """The operator that wrote the state: its name and a hash; empty if unknown."""

    def to_json(self) -> str:
        kept = {
            "format": FORMAT,
            "version": self.version,
            "buckets": self.buckets,
            "runs": self.runs,
            "timer": self.timer_ms,
            "owner": self.owner,
        }
        return json.dumps(kept, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Manifest:
        try:
            kept = json.loads(text)
            if kept["format"] != FORMAT:
                raise HeadraceError(
                    f"state format {kept['format']} is newer than the supported format {FORMAT}",
                    hint="upgrade headrace",
                )
            return cls(
                version=int(kept["version"]),
                buckets=int(kept["buckets"]),
                runs=tuple(kept["runs"]),
                timer_ms=kept["timer"],
                owner=kept.get("owner", ""),
            )
        except (ValueError, KeyError, TypeError) as error:
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
