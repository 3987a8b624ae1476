"""The settings of change capture: the `[cdc]` table of headrace.toml."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from headrace.settings import load, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class CdcSettings:
    data_dir: Path = setting(
        Path("data"), doc="Folder of the captures' definitions and states, in its subfolder cdc."
    )


def cdc_settings(*, data_dir: Path | None = None) -> CdcSettings:
    return load(CdcSettings, section="cdc", flags={"data_dir": data_dir})
