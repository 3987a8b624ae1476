"""The numbers of Kafka's APIs."""

from __future__ import annotations

import importlib

import pytest
from kio.index import load_request_schema

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import MESSAGE_INFO


@pytest.mark.parametrize("key", list(ApiKey), ids=lambda key: key.name)
def test_request_and_response_of_an_api_are_in_the_module_of_its_name(key: ApiKey) -> None:
    module = importlib.import_module(f"headrace.protocol.messages.{key.name.lower()}")
    infos = [info for cls, info in MESSAGE_INFO.items() if cls.__module__ == module.__name__]
    assert {info.api_key for info in infos} == {key}
    assert sorted(info.is_request for info in infos) == [False, True]


@pytest.mark.parametrize("key", list(ApiKey), ids=lambda key: key.name)
def test_number_is_that_of_the_second_implementation(key: ApiKey) -> None:
    version = next(info.versions[1] for info in MESSAGE_INFO.values() if info.api_key == key)
    assert key.name.lower() in load_request_schema(key, version).__module__
