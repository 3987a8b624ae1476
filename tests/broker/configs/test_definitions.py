"""A config parses its values, and rejects invalid ones by name, with the valid ones as a hint."""

from __future__ import annotations

import pytest

from headrace.broker.configs.definitions import (
    BOOLEANS,
    BROKER,
    BROKER_LOGGER,
    CLIENT_METRICS,
    GROUP,
    INT32_MAX,
    INT64_MAX,
    TOPIC,
    ConfigDefinition,
    by_name,
    choice,
    double,
    int32,
    int64,
    listed,
    text,
)
from headrace.broker.rejections import RequestRejected
from headrace.errors import HeadraceError
from headrace.protocol.error_codes import ErrorCode

LEVELS = {"low": 1, "high": 2}


def with_parser(error: Exception) -> ConfigDefinition:
    def parser(given: str) -> None:
        raise error

    return text("n", "", "", parser)


def test_numbers_are_those_of_config_resource_type() -> None:
    """They are not those of `ResourceType`, in which a group is 3."""
    assert (TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP) == (2, 4, 8, 16, 32)


@pytest.mark.parametrize(
    ("config", "given", "value"),
    [
        (int32("n", 1, -1, ""), "-1", -1),
        (int32("n", 1, -1, ""), str(INT32_MAX), INT32_MAX),
        (int64("n", 1, 0, ""), str(INT64_MAX), INT64_MAX),
        (double("n", 0.5, 0, 1, ""), "0.25", 0.25),
        (choice("n", "true", BOOLEANS, ""), "false", False),
        (choice("n", "low", LEVELS, "", ignores_case=True), "HIGH", 2),
        (listed("n", "", ""), "a,b", "a,b"),
        (text("n", "", "", len), "abc", 3),
    ],
)
def test_valid_value_is_parsed(config: ConfigDefinition, given: str, value: object) -> None:
    assert config.parse(given) == value


@pytest.mark.parametrize(
    ("config", "given", "hint"),
    [
        (int32("n", 1, 0, ""), "-1", "it must be a whole number from 0 to 2147483647"),
        (int32("n", 1, 0, "", maximum=5), "6", "from 0 to 5"),
        (int32("n", 1, 0, ""), "1.5", "a whole number"),
        (int64("n", 1, 0, ""), str(INT64_MAX + 1), "a whole number"),
        (double("n", 0.5, 0, 1, ""), "nan", "it must be a number from 0 to 1"),
        (choice("n", "low", LEVELS, ""), "LOW", "choose one of low, high"),
        (
            with_parser(HeadraceError("the list is empty", hint="name one")),
            "x",
            "the list is empty (name one)",
        ),
    ],
)
def test_invalid_value_is_rejected_with_the_valid_ones(
    config: ConfigDefinition, given: str, hint: str
) -> None:
    with pytest.raises(RequestRejected, match=f"n={given} is invalid") as error:
        config.parse(given)
    assert error.value.code is ErrorCode.INVALID_CONFIG
    assert hint in error.value.hint


def test_parser_can_choose_the_error_code() -> None:
    with pytest.raises(RequestRejected, match="never") as error:
        with_parser(RequestRejected(ErrorCode.INVALID_REQUEST, "never")).parse("x")
    assert error.value.code is ErrorCode.INVALID_REQUEST


def test_type_is_that_of_the_values() -> None:
    configs = by_name(
        int32("a", 1, 0, ""),
        int64("b", 1, 0, ""),
        double("c", 1, 0, 1, ""),
        choice("d", "true", BOOLEANS, ""),
        choice("e", "low", LEVELS, ""),
        listed("f", "", ""),
        text("g", "", "", str),
    )
    assert {name: config.type.name for name, config in configs.items()} == {
        "a": "INT",
        "b": "LONG",
        "c": "DOUBLE",
        "d": "BOOLEAN",
        "e": "STRING",
        "f": "LIST",
        "g": "STRING",
    }
