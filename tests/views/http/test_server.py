from __future__ import annotations

import socket
from pathlib import Path

import pytest

from headrace.testing import free_port
from headrace.views.catalog import Views
from headrace.views.errors import BadView
from headrace.views.http.server import serve


def test_address_that_others_reach_must_be_allowed(tmp_path: Path) -> None:
    for host in ("0.0.0.0", "", "192.0.2.1", "::"):
        with pytest.raises(BadView, match=r"not a loopback address.*--insecure"):
            serve(Views(tmp_path), host, free_port())


def test_address_in_use_is_an_error_for_users(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(BadView, match="can't listen on"):
        serve(Views(tmp_path), "127.0.0.1", taken.getsockname()[1])
