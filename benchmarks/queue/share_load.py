"""Runs the clients of share groups, and prepares their topics and groups, on Headrace and Apache Kafka."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import asdict
from typing import cast

from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from benchmarks.broker.load import (
    ADMIN_TIMEOUT_S,
    CLIENT_TIMEOUT_S,
    LOG_ERRORS_ONLY,
    ClientFailed,
    check_end_offset,
)
from benchmarks.queue.share_client import Load
from headrace.java import last_lines
from headrace.kafka.share_groups import describe_share_group

CONFIG_PROBE_INTERVAL_S = 0.05


def create_group(bootstrap: str, group: str, **configs: str) -> None:
    """Configure a group that starts at the first record. `record_lock_duration_ms` sets
    `share.record.lock.duration.ms`; names with a dot are used as they are."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": LOG_ERRORS_ONLY})
    wanted = {"share.auto.offset.reset": "earliest"}
    wanted |= {
        name if "." in name else f"share.{name.replace('_', '.')}": value for name, value in configs.items()
    }
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in wanted.items()
    ]
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=entries)
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(timeout=ADMIN_TIMEOUT_S)
    deadline_s = time.monotonic() + ADMIN_TIMEOUT_S
    while not _are_set(admin, group, wanted):  # Kafka's nodes apply a change a moment later
        if time.monotonic() > deadline_s:
            raise ClientFailed(f"the configs of group {group} were set, but are not visible")
        time.sleep(CONFIG_PROBE_INTERVAL_S)


def _are_set(admin: AdminClient, group: str, wanted: dict[str, str]) -> bool:
    resource = ConfigResource(ResourceType.GROUP, group)
    found = admin.describe_configs([resource])[resource].result(timeout=ADMIN_TIMEOUT_S)
    return all(name in found and found[name].value == value for name, value in wanted.items())


def share_load(load: Load) -> dict[str, float]:
    return _client("share_client", json.dumps(asdict(load)))


def check_all_acknowledged_once(load: Load, figures: dict[str, float]) -> None:
    """A rate is valid only if the broker reports no lag, and no message was delivered twice."""
    if figures["redelivered"] or figures["failed"]:
        raise ClientFailed(
            f"{figures['redelivered']:.0f} messages were redelivered, {figures['failed']:.0f} could not be acknowledged"
        )
    expected = load.messages + int(figures["primed"])
    check_end_offset(load.bootstrap, load.topic, expected)
    host, _, port = load.bootstrap.rpartition(":")
    described = describe_share_group((host, int(port)), load.group, ADMIN_TIMEOUT_S)
    # The start offset is not enough: Kafka moves it only with the next acknowledgement.
    not_done = [partition.not_done for partition in described.partitions]
    if not_done != [0]:
        raise ClientFailed(
            f"{expected} messages were acknowledged, but {load.group} has {not_done} to process"
        )


def transactions_per_s(
    bootstrap: str, topic: str, transactions: int, records_each: int, record_bytes: int
) -> float:
    arguments = (bootstrap, topic, str(transactions), str(records_each), str(record_bytes))
    return _client("transaction_client", *arguments)["transactions_per_s"]


def _client(name: str, *arguments: str) -> dict[str, float]:
    command = [sys.executable, "-m", f"benchmarks.queue.{name}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=CLIENT_TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise ClientFailed(f"{name} ended with code {done.returncode}:\n{last_lines(done.stderr)}")
    return cast(dict[str, float], json.loads(done.stdout))
