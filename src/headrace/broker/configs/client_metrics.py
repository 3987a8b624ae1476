"""Subscriptions to the metrics of clients (resource type CLIENT_METRICS): kept and shown.

A Kafka without a plugin that receives such metrics asks no client for them, and neither does Headrace.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.broker.configs.resource_configs import RefusedConfig, ResourceConfig, ResourceConfigs
from headrace.broker.configs.topic_configs import ConfigType, InvalidConfig
from headrace.broker.patterns import InvalidPattern, compiled
from headrace.log.filesystem import FileSystem

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
        raise InvalidConfig(f"interval.ms={text} is not a whole number") from None
    if not INTERVAL_MS_MIN <= interval_ms <= INTERVAL_MS_MAX:
        raise RefusedConfig(
            f"interval.ms={text} is out of range", hint=f"it may be {INTERVAL_MS_MIN} to {INTERVAL_MS_MAX}"
        )
    return interval_ms


def _matches(text: str) -> Mapping[str, str]:
    found = {}
    for part in filter(None, text.split(",")):
        name, separator, pattern = (side.strip() for side in part.partition("="))
        if not separator or name not in MATCHED:
            raise InvalidConfig(
                f"match={part} is not possible", hint=f"write NAME=REGEX, with one of {', '.join(MATCHED)}"
            )
        try:
            compiled(pattern)
        except InvalidPattern as error:
            raise InvalidConfig(f"match={part}: {error.message}", hint=error.hint) from error
        found[name] = pattern
    return found


CLIENT_METRICS_CONFIGS: dict[str, ResourceConfig] = {
    config.name: config
    for config in (
        ResourceConfig(
            name="metrics",
            type=ConfigType.LIST,
            default="",
            doc="Prefixes of the names of metrics; * is all.",
            parse=str,
        ),
        ResourceConfig(
            name="interval.ms",
            type=ConfigType.INT,
            default="300000",
            doc="How often clients send them.",
            parse=_interval_ms,
        ),
        ResourceConfig(
            name="match",
            type=ConfigType.LIST,
            default="",
            doc="Which clients send them: NAME=REGEX, all of which apply.",
            parse=_matches,
        ),
    )
}


def definition(name: str) -> ResourceConfig:
    if name not in CLIENT_METRICS_CONFIGS:
        raise RefusedConfig(
            f"a subscription to client metrics has no config {name}",
            hint=f"it has {', '.join(CLIENT_METRICS_CONFIGS)}",
        )
    return CLIENT_METRICS_CONFIGS[name]


def check_configs(configs: Mapping[str, str]) -> None:
    for name, text in configs.items():
        definition(name).parse(text)


def client_metrics(files: FileSystem, data_dir: str, *, names_max: int) -> ResourceConfigs:
    """By the name of the subscription."""
    return ResourceConfigs(
        files, data_dir, file_name="client-metrics.json", check=check_configs, names_max=names_max
    )
