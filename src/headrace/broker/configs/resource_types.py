"""The numbers of the kinds of resources that have configs."""

from __future__ import annotations

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
