"""The keywords of `Broker` are the settings of a broker."""

from __future__ import annotations

from pathlib import Path
from typing import get_type_hints

from headrace.broker.options import BrokerOptions
from headrace.broker.settings import BrokerSettings


def test_every_setting_is_a_typed_keyword() -> None:
    settings = get_type_hints(BrokerSettings)
    assert {name: settings.pop(name) for name in ("data_dir", "port")} == {"data_dir": Path, "port": int}
    assert get_type_hints(BrokerOptions) == settings
