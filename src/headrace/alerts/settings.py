"""The settings of alerts: the `[alert]` table of headrace.toml."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from headrace.settings import load, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertSettings:
    data_dir: Path = setting(
        Path("data"), doc="Folder of the definitions of alerts and of silences, in its subfolder alerts."
    )


def alert_settings(*, data_dir: Path | None = None) -> AlertSettings:
    return load(AlertSettings, section="alert", flags={"data_dir": data_dir})
