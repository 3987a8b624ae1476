"""Subscriptions to the metrics of clients (resource type CLIENT_METRICS): kept and shown.

A Kafka without a plugin that receives such metrics requests them from no client, and neither does Headrace.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.broker.configs.definitions import ConfigDefinition, ConfigType, by_name, listed
from headrace.broker.configs.resource_configs import ResourceConfigs
from headrace.broker.patterns import compiled
from headrace.broker.rejections import RequestRejected
from headrace.log.filesystem import FileSystem
from headrace.protocol.error_codes import ErrorCode

INTERVAL_MS_MIN, INTERVAL_MS_MAX = 100, 3_600_000

# The properties of clients that a subscription can match.
MATCHED = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)


def _interval_ms(text: str) -> int:
    try:
        interval_ms = int(text)
    except ValueError:
        raise ValueError("it must be a whole number") from None
    if not INTERVAL_MS_MIN <= interval_ms <= INTERVAL_MS_MAX:
        raise RequestRejected(
            ErrorCode.INVALID_REQUEST,
            f"interval.ms={text} is out of range",
            hint=f"it may be {INTERVAL_MS_MIN} to {INTERVAL_MS_MAX}",
        )
    return interval_ms


def _matches(text: str) -> Mapping[str, str]:
    found = {}
    for part in filter(None, text.split(",")):
        name, separator, pattern = (side.strip() for side in part.partition("="))
        if not separator or name not in MATCHED:
            raise ValueError(f"write NAME=REGEX, with one of {', '.join(MATCHED)}")
        compiled(pattern)
        found[name] = pattern
    return found


CLIENT_METRICS_CONFIGS = by_name(
    listed("metrics", "", "Prefixes of the names of metrics; * is all."),
    ConfigDefinition(
        name="interval.ms",
        type=ConfigType.INT,
        default="300000",
        doc="How often clients send them.",
        parser=_interval_ms,
    ),
    listed("match", "", "Which clients send them: NAME=REGEX, all of which apply.", _matches),
)


def definition(name: str) -> ConfigDefinition:
    if name not in CLIENT_METRICS_CONFIGS:
        raise RequestRejected(
            ErrorCode.INVALID_REQUEST,
            f"a subscription to client metrics has no config {name}",
            hint=f"it has {', '.join(CLIENT_METRICS_CONFIGS)}",
        )
    return CLIENT_METRICS_CONFIGS[name]


def client_metrics(files: FileSystem, data_dir: str, *, names_max: int) -> ResourceConfigs:
    """By the name of the subscription."""
    return ResourceConfigs(
        files, data_dir, file_name="client-metrics.json", definition=definition, names_max=names_max
    )
