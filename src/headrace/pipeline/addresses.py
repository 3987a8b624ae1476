"""Which addresses are folders of this machine, and which are not. Nothing is opened."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

from headrace.pipeline.errors import BadJob

_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://")

OBJECT_STORE_SCHEMES = ("s3a", "gs")
"""Their files appear when they are complete, and they rename by copying."""

_NEAREST_SCHEMES = {"s3": "s3a", "s3n": "s3a", "webhdfs": "hdfs"}


def is_remote(address: str | Path) -> bool:
    """Whether the address is not a folder of this machine."""
    text = str(address)
    return bool(_SCHEME.match(text)) and not text.startswith("file:")


def scheme_of(address: str) -> str:
    return urlsplit(address).scheme


def local_path(address: str | Path) -> Path:
    """A local path is written as `file:/path`, `file:///path` or as it is."""
    assert not is_remote(address), f"{address} is not a folder of this machine"
    text = str(address)
    return Path("/" + text.removeprefix("file:").lstrip("/")) if text.startswith("file:") else Path(text)


def normal(address: str | Path) -> str:
    """An absolute path, or the address of a folder in another file system, without a slash at its end."""
    if not is_remote(address):
        return str(local_path(address).absolute())
    text = str(address).rstrip("/")
    nearest = _NEAREST_SCHEMES.get(scheme_of(text))
    if nearest is not None:
        raise BadJob(
            f"{text}: Spark keeps no checkpoint at {scheme_of(text)}://",
            hint=f"write {nearest}://{text.partition('://')[2]}",
        )
    return text
