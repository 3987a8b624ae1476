"""What the commands of webhooks out share."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.cli.webhook.outgoing_targets import catalog_of, delete_group, folder_of, settings_of
from headrace.kafka.cluster import Cluster, Partition


def test_definitions_are_in_the_folder_of_the_option_or_of_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert catalog_of(settings_of(tmp_path)).folder == tmp_path / "webhooks" / "out"
    monkeypatch.setenv("HEADRACE_WEBHOOK_OUT_DATA_DIR", str(tmp_path / "other"))
    assert folder_of(settings_of(None), "t").path == tmp_path / "other" / "webhooks" / "targets" / "t"
    assert settings_of(None, pending_max="5").pending_max == 5


def test_group_of_a_removed_webhook_is_deleted(bootstrap: str, topic: str, name: str) -> None:
    cluster = Cluster(bootstrap, timeout_s=15)
    cluster.commit(f"headrace-webhook-{name}", {Partition(topic, 0): 0})
    delete_group(cluster, name)
    delete_group(cluster, name)
    assert f"headrace-webhook-{name}" not in dict(cluster.groups())
