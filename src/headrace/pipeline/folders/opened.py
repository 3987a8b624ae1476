"""The folder at an address."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from headrace.pipeline.addresses import is_remote, local_path, normal
from headrace.pipeline.folders.folder import Folder
from headrace.pipeline.folders.local import LocalFolder


def open_folder(address: str | Path | Folder) -> Folder:
    """Nothing is read or created yet."""
    if not isinstance(address, str | Path):
        return address
    if not is_remote(address):
        return LocalFolder(local_path(address))
    from headrace.pipeline.folders.hadoop import HadoopFolder

    return cast("Folder", HadoopFolder(normal(address)))
