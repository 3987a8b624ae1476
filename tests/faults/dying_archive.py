"""A broker whose process is killed by its archive, at a step that a test names: `python -m tests.faults.dying_archive`.

The archive is a folder at `dying://PATH`. HEADRACE_TEST_DIES is "OPERATION PATTERN before|after": the process ends with
kill -9 around the first put or delete whose name fits.
"""

from __future__ import annotations

import os
import signal
from fnmatch import fnmatch
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem

from headrace.cli.main import main

DIES_VARIABLE = "HEADRACE_TEST_DIES"
PROTOCOL = "dying"


class DyingFileSystem(LocalFileSystem):
    protocol = PROTOCOL

    @classmethod
    def _strip_protocol(cls, path: Any, *args: Any, **options: Any) -> Any:
        if isinstance(path, str):
            path = path.removeprefix(f"{PROTOCOL}://")
        return super()._strip_protocol(path, *args, **options)

    def put_file(self, lpath: str, rpath: str, **options: Any) -> None:
        _die("put", rpath, "before")
        super().put_file(lpath, rpath, **options)
        _die("put", rpath, "after")

    def pipe_file(self, path: str, value: bytes, **options: Any) -> None:
        _die("put", path, "before")
        super().pipe_file(path, value, **options)
        _die("put", path, "after")

    def rm_file(self, path: str) -> None:
        _die("delete", path, "before")
        super().rm_file(path)
        _die("delete", path, "after")


def _die(operation: str, path: str, moment: str) -> None:
    wanted = os.environ.get(DIES_VARIABLE, "- - -").split()
    if [operation, moment] == [wanted[0], wanted[2]] and fnmatch(path, wanted[1]):
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    fsspec.register_implementation(PROTOCOL, DyingFileSystem)
    main()
