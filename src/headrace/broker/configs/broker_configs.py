"""The configs of the broker that can be altered while it runs (resource type BROKER): those of replicas.

Kafka's tools set and remove them around the move of a replica. They have no effect on one node. All other
settings of the broker are read at its start.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.broker.configs.definitions import INT64_MAX, ConfigDefinition, by_name, int32, int64
from headrace.broker.configs.resource_configs import ResourceConfigs
from headrace.broker.rejections import RequestRejected
from headrace.log.filesystem import FileSystem
from headrace.protocol.error_codes import ErrorCode

ALL_BROKERS = ""
"""The name of the resource whose configs apply to every broker."""

NAMES_MAX = 2
"""The only broker, and all brokers."""

MIN_INSYNC_REPLICAS = "min.insync.replicas"
# Kafka sets it for the whole cluster when its data folder is formatted, and its tools show that.
SET_FROM_THE_START = {MIN_INSYNC_REPLICAS: "1"}


_RATE = "Bytes per second for moving replicas. Accepted without effect: there is one node."

BROKER_CONFIGS = by_name(
    int64("leader.replication.throttled.rate", INT64_MAX, 0, _RATE),
    int64("follower.replication.throttled.rate", INT64_MAX, 0, _RATE),
    int64("replica.alter.log.dirs.io.max.bytes.per.second", INT64_MAX, 0, _RATE),
    int32(MIN_INSYNC_REPLICAS, 1, 1, "The default of topics. Accepted without effect: there is one node."),
)


def definition(name: str) -> ConfigDefinition:
    if name not in BROKER_CONFIGS:
        raise RequestRejected(
            ErrorCode.INVALID_REQUEST,
            f"{name} cannot be altered while the broker runs",
            hint="set it when the broker starts",
        )
    return BROKER_CONFIGS[name]


class BrokerConfigs(ResourceConfigs):
    """By the id of a broker, as text, or `ALL_BROKERS`."""

    def __init__(self, files: FileSystem, data_dir: str) -> None:
        super().__init__(
            files, data_dir, file_name="broker-configs.json", definition=definition, names_max=NAMES_MAX
        )

    def of(self, name: str) -> Mapping[str, str]:
        inherent = SET_FROM_THE_START if name == ALL_BROKERS else {}
        return {**inherent, **super().of(name)}

    def check(self, name: str, configs: Mapping[str, str]) -> None:
        try:
            super().check(name, configs)
        except RequestRejected as error:
            raise RequestRejected(ErrorCode.INVALID_REQUEST, error.message, hint=error.hint) from error
        if (MIN_INSYNC_REPLICAS in configs) != (name == ALL_BROKERS):
            raise RequestRejected(
                ErrorCode.INVALID_CONFIG,
                f"{MIN_INSYNC_REPLICAS} is set for all brokers together",
                hint="set it there; it cannot be removed",
            )
