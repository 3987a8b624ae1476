"""The features of the cluster that clients look for before they use them: the levels that Kafka 4.3 gives them.

They belong to this version of Headrace, and are all at their highest level. None can be lowered.
"""

from __future__ import annotations

from msgspec import Struct


class Feature(Struct, frozen=True, kw_only=True):
    lowest: int
    level: int


FEATURES = {
    "eligible.leader.replicas.version": Feature(lowest=0, level=1),
    "group.version": Feature(lowest=0, level=1),
    "kraft.version": Feature(lowest=0, level=1),
    "metadata.version": Feature(lowest=7, level=30),
    "share.version": Feature(lowest=0, level=1),
    "transaction.version": Feature(lowest=0, level=2),
}

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


def problem_of_update(name: str, level: int, upgrade_type: int) -> str | None:
    """Why a feature cannot be set to a level; None if it is there already."""
    feature = FEATURES.get(name)
    if feature is None:
        return "this broker does not have the feature"
    if level < 0:
        return "a level is not less than 0"
    if upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        return f"upgrade type {upgrade_type} is unknown"
    if not feature.lowest <= level <= feature.level:
        return f"this broker supports levels {feature.lowest}-{feature.level}"
    if level < feature.level:
        return f"it is at level {feature.level}, which cannot be lowered"
    return None
