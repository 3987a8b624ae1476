"""The configs of the broker that can be altered while it runs (resource type BROKER): those of replicas.

Kafka's tools set and remove them around the move of a replica. They have no effect on one node. All other
settings of the broker are read at its start.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.broker.configs.resource_configs import RefusedConfig, ResourceConfig, ResourceConfigs
from headrace.broker.configs.topic_configs import (
    INT32_MAX,
    INT64_MAX,
    ConfigType,
    InvalidConfig,
    whole_number,
)
from headrace.log.filesystem import FileSystem

ALL_BROKERS = ""
"""The name of the resource whose configs apply to every broker."""

NAMES_MAX = 2
"""The only broker, and all brokers."""

MIN_INSYNC_REPLICAS = "min.insync.replicas"
# Kafka sets it for the whole cluster when its data folder is formatted, and its tools show that.
SET_FROM_THE_START = {MIN_INSYNC_REPLICAS: "1"}


def _rate(name: str) -> ResourceConfig:
    return ResourceConfig(
        name=name,
        type=ConfigType.LONG,
        default=str(INT64_MAX),
        doc="Bytes per second for moving replicas. Accepted without effect: there is one node.",
        parse=whole_number(name, 0, INT64_MAX),
    )


BROKER_CONFIGS: dict[str, ResourceConfig] = {
    config.name: config
    for config in (
        _rate("leader.replication.throttled.rate"),
        _rate("follower.replication.throttled.rate"),
        _rate("replica.alter.log.dirs.io.max.bytes.per.second"),
        ResourceConfig(
            name=MIN_INSYNC_REPLICAS,
            type=ConfigType.INT,
            default=SET_FROM_THE_START[MIN_INSYNC_REPLICAS],
            doc="The default of topics. Accepted without effect: there is one node.",
            parse=whole_number(MIN_INSYNC_REPLICAS, 1, INT32_MAX),
        ),
    )
}


def definition(name: str) -> ResourceConfig:
    if name not in BROKER_CONFIGS:
        raise RefusedConfig(
            f"{name} cannot be altered while the broker runs", hint="set it when the broker starts"
        )
    return BROKER_CONFIGS[name]


def check_configs(configs: Mapping[str, str]) -> None:
    for name, text in configs.items():
        try:
            definition(name).parse(text)
        except InvalidConfig as error:
            raise RefusedConfig(error.message, hint=error.hint) from error


class BrokerConfigs(ResourceConfigs):
    """By the id of a broker, as text, or `ALL_BROKERS`."""

    def __init__(self, files: FileSystem, data_dir: str) -> None:
        super().__init__(
            files, data_dir, file_name="broker-configs.json", check=check_configs, names_max=NAMES_MAX
        )

    def of(self, name: str) -> Mapping[str, str]:
        inherent = SET_FROM_THE_START if name == ALL_BROKERS else {}
        return {**inherent, **super().of(name)}

    def check(self, name: str, configs: Mapping[str, str]) -> None:
        super().check(name, configs)
        if (MIN_INSYNC_REPLICAS in configs) != (name == ALL_BROKERS):
            raise InvalidConfig(
                f"{MIN_INSYNC_REPLICAS} is set for all brokers together",
                hint="set it there; it cannot be removed",
            )
