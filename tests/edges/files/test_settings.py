"""The bounds of following files."""

from __future__ import annotations

import resource

from headrace.edges.files.settings import FilesSettings


def test_open_files_fit_a_process() -> None:
    settings = FilesSettings(name="e", patterns=("*.log",), topic="t")
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert settings.open_files_max < soft or soft == resource.RLIM_INFINITY
