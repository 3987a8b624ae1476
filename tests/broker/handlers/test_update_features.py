"""The features in ApiVersions, and UpdateFeatures, over the wire, compared with Apache Kafka."""

from __future__ import annotations

import pytest

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.api_versions import ApiVersionsRequest
from headrace.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from headrace.testing.wire import Wire

ASK = ApiVersionsRequest(client_software_name="tests", client_software_version="1")
UPGRADE, SAFE_DOWNGRADE = 1, 2
METADATA_VERSION_OF_4_3 = 30


def update(wire: Wire, *updates: FeatureUpdateKey, version: int = 2) -> int:
    request = UpdateFeaturesRequest(feature_updates=updates, validate_only=version > 0)
    code: int = wire.request(request, version=version).error_code
    return code


def test_levels_of_the_features_are_those_of_kafka(any_wire: Wire) -> None:
    response = any_wire.request(ASK, version=4)
    supported = {one.name: (one.min_version, one.max_version) for one in response.supported_features}
    levels = {one.name: one.max_version_level for one in response.finalized_features}
    assert supported["metadata.version"] == (7, METADATA_VERSION_OF_4_3)
    assert levels["metadata.version"] == METADATA_VERSION_OF_4_3
    for name in ("eligible.leader.replicas.version", "group.version", "share.version"):
        assert (supported[name], levels[name]) == ((0, 1), 1)
    assert (supported["transaction.version"], levels["transaction.version"]) == ((0, 2), 2)


def test_older_clients_see_no_feature_whose_lowest_level_is_0(any_wire: Wire) -> None:
    response = any_wire.request(ASK, version=3)
    assert [one.name for one in response.supported_features] == ["metadata.version"]
    assert "transaction.version" in {one.name for one in response.finalized_features}


@pytest.mark.parametrize("version", range(3))
def test_feature_that_is_at_its_level_is_updated(any_wire: Wire, version: int) -> None:
    here = FeatureUpdateKey(feature="group.version", max_version_level=1)
    assert update(any_wire, here, version=version) == 0


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize(
    ("name", "level"),
    [("group.version", 2), ("group.version", -1), ("group.version", 0), ("no.such.feature", 1)],
)
def test_invalid_level_fails_the_update_of_all_features(
    any_wire: Wire, version: int, name: str, level: int
) -> None:
    possible = FeatureUpdateKey(feature="share.version", max_version_level=1)
    rejected = FeatureUpdateKey(feature=name, max_version_level=level)
    assert update(any_wire, possible, rejected, version=version) == ErrorCode.INVALID_UPDATE_VERSION


def test_unknown_kind_of_update_is_rejected(any_wire: Wire) -> None:
    strange = FeatureUpdateKey(feature="group.version", max_version_level=1, upgrade_type=9)
    assert update(any_wire, strange) == ErrorCode.INVALID_UPDATE_VERSION


def test_no_feature_can_be_lowered(wire: Wire) -> None:
    """Kafka could: a level is a property of its cluster, and of the version here."""
    lower = FeatureUpdateKey(feature="group.version", max_version_level=0, upgrade_type=SAFE_DOWNGRADE)
    assert update(wire, lower) == ErrorCode.INVALID_UPDATE_VERSION
