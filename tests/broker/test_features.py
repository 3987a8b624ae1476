"""The features of the cluster, and why they can't be changed."""

from __future__ import annotations

import pytest

from headrace.broker.features import FEATURES, UNSAFE_DOWNGRADE, UPGRADE, problem_of_update


@pytest.mark.parametrize("name", FEATURES)
def test_feature_can_be_set_to_its_level_and_no_other(name: str) -> None:
    feature = FEATURES[name]
    assert problem_of_update(name, feature.level, UPGRADE) is None
    assert "cannot be lowered" in (problem_of_update(name, feature.level - 1, UNSAFE_DOWNGRADE) or "")
    for level in (feature.level + 1, -1):
        assert problem_of_update(name, level, UPGRADE)


def test_unknown_feature_or_type_of_update_is_a_problem() -> None:
    assert problem_of_update("no.such.version", 1, UPGRADE) == "this broker does not have the feature"
    assert problem_of_update("group.version", 1, 9) == "upgrade type 9 is unknown"


def test_features_that_clients_look_for_are_on() -> None:
    """Without these, clients use no groups of the newer protocol, no share groups and no transactions of KIP-890."""
    levels = {
        name: FEATURES[name].level for name in ("group.version", "share.version", "transaction.version")
    }
    assert levels == {"group.version": 1, "share.version": 1, "transaction.version": 2}
