"""What a bucket's state consists of, in a few bytes: which runs, of which version, for how many buckets."""

from __future__ import annotations

import json

from msgspec import Struct

from headrace.errors import HeadraceError

FORMAT = 1


class Manifest(Struct, frozen=True, kw_only=True):
    version: int
    """Of the step's columns."""
    buckets: int
    runs: tuple[str, ...] = ()
    """From the oldest on."""
    timer_ms: int | None = None
    owner: str = ""
    """Whose state it is, in a word and a few digits; empty where that was not said."""

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
                    f"this state has format {kept['format']}, and {FORMAT} is what is known here",
                    hint="a newer Headrace wrote it: use that one",
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
                f"this is no state of Headrace's: {text[:100]!r}",
                hint="is the checkpoint that of another job?",
            ) from error

    def check(self, *, version: int, buckets: int, owner: str = "") -> None:
        if self.owner and owner and self.owner != owner:
            raise HeadraceError(
                f"the state was kept by `{self.owner}`, and is asked for by `{owner}`: another one, or set otherwise",
                hint="put the operator back as it was, or build the state anew: another checkpoint, or --rebuild",
            )
        if self.buckets != buckets:
            raise HeadraceError(
                f"the state was kept in {self.buckets} buckets, and is asked for in {buckets}",
                hint=f"set spark.headrace.state.buckets to {self.buckets}, or rebuild the job's state",
            )
        if self.version > version:
            raise HeadraceError(
                f"the state has version {self.version}, and {version} is what is known here",
                hint="a newer Headrace wrote it: use that one",
            )
