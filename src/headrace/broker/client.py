"""What the broker knows of the other end of a connection."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, kw_only=True)
class Client:
    """One connected client. Its software is told by the client itself, in ApiVersions (KIP-511)."""

    host: str
    port: int
    local_host: str
    local_port: int
    software_name: str = "unknown"
    software_version: str = "unknown"
