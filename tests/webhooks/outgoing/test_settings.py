"""Settings of webhooks out, and how they relate."""

from __future__ import annotations

import pytest

from headrace.settings import BadSetting
from headrace.webhooks.outgoing.settings import OutgoingSettings, outgoing_settings


def test_target_that_is_down_is_paused_before_its_messages_are_dead_letters() -> None:
    settings = OutgoingSettings()
    assert settings.retry_for_ms > settings.pause_after_ms + settings.retry_ms_max


def test_settings_come_from_flags_and_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_WEBHOOK_OUT_PENDING_MAX", "5")
    settings = outgoing_settings({"retry_ms_first": 7, "data_dir": None})
    assert (settings.pending_max, settings.retry_ms_first) == (5, 7)
    assert settings.back_off().first_ms == 7
    with pytest.raises(BadSetting):
        outgoing_settings({"pending_max": 0})


def test_networks_are_allowed_for_all_targets() -> None:
    rules = OutgoingSettings(allowed_networks="10.1.0.0/16, fd12::/16").address_rules(allow_inside=False)
    assert rules.problem("10.1.2.3") == ""
    assert rules.problem("10.2.2.3") != ""
    assert OutgoingSettings().address_rules(allow_inside=True).problem("127.0.0.1") == ""
