"""The definition of a config: its name, type, default and documentation, and the parser of its values.

The numbers of types are those of Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any

from msgspec import Struct

from headrace.broker.rejections import RequestRejected
from headrace.errors import HeadraceError
from headrace.protocol.error_codes import ErrorCode

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
"""The types of resources."""

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
BOOLEANS = {"true": True, "false": False}


class ConfigType(IntEnum):
    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


class ConfigDefinition(Struct, frozen=True, kw_only=True):
    name: str
    type: ConfigType
    default: str
    doc: str
    parser: Callable[[str], Any]
    """Raises ValueError, or an error with a message, for an invalid value."""

    def parse(self, text: str) -> Any:
        try:
            return self.parser(text)
        except RequestRejected:
            raise
        except (ValueError, HeadraceError) as error:
            raise RequestRejected(
                ErrorCode.INVALID_CONFIG, f"{self.name}={text} is invalid", hint=str(error)
            ) from error


def by_name(*configs: ConfigDefinition) -> dict[str, ConfigDefinition]:
    return {config.name: config for config in configs}


def listed(name: str, default: str, doc: str, parser: Callable[[str], Any] = str) -> ConfigDefinition:
    return ConfigDefinition(name=name, type=ConfigType.LIST, default=default, doc=doc, parser=parser)


def text(name: str, default: str, doc: str, parser: Callable[[str], Any]) -> ConfigDefinition:
    return ConfigDefinition(name=name, type=ConfigType.STRING, default=default, doc=doc, parser=parser)


def int32(name: str, default: int, minimum: int, doc: str, *, maximum: int = INT32_MAX) -> ConfigDefinition:
    parser = _number(int, "a whole number", minimum, maximum)
    return ConfigDefinition(name=name, type=ConfigType.INT, default=str(default), doc=doc, parser=parser)


def int64(name: str, default: int, minimum: int, doc: str) -> ConfigDefinition:
    parser = _number(int, "a whole number", minimum, INT64_MAX)
    return ConfigDefinition(name=name, type=ConfigType.LONG, default=str(default), doc=doc, parser=parser)


def double(name: str, default: float, minimum: int, maximum: int, doc: str) -> ConfigDefinition:
    parser = _number(float, "a number", minimum, maximum)
    return ConfigDefinition(name=name, type=ConfigType.DOUBLE, default=str(default), doc=doc, parser=parser)


def choice(
    name: str, default: str, values: Mapping[str, Any], doc: str, *, ignores_case: bool = False
) -> ConfigDefinition:
    def parser(text: str) -> Any:
        chosen = text.lower() if ignores_case else text
        if chosen not in values:
            raise ValueError(f"choose one of {', '.join(values)}")
        return values[chosen]

    kind = ConfigType.BOOLEAN if values is BOOLEANS else ConfigType.STRING
    return ConfigDefinition(name=name, type=kind, default=default, doc=doc, parser=parser)


def _number(kind: Callable[[str], float], noun: str, minimum: int, maximum: int) -> Callable[[str], float]:
    def parser(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            value = None
        if value is None or not minimum <= value <= maximum:
            raise ValueError(f"it must be {noun} from {minimum} to {maximum}")
        return value

    return parser
