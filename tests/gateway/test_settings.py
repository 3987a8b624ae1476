from __future__ import annotations

import pytest

from headrace.gateway.settings import GatewaySettings, gateway_settings
from headrace.settings import BadSetting


def test_page_of_every_other_site_is_kept_out_by_default() -> None:
    assert GatewaySettings().origins == []
    assert GatewaySettings(cors_origins="https://a, http://b:1 ,").origins == ["https://a", "http://b:1"]


def test_default_limits_fit_each_other() -> None:
    settings = GatewaySettings()
    assert settings.body_bytes_max <= settings.bodies_bytes_max
    assert settings.subscribers_max + settings.requests_max < settings.connections_max
    assert settings.records_max <= settings.unacknowledged_records_max
    assert settings.page_bytes_max <= settings.buffer_bytes_max


def test_setting_out_of_range_is_rejected() -> None:
    with pytest.raises(BadSetting, match="body_bytes_max"):
        gateway_settings({"body_bytes_max": 0})
