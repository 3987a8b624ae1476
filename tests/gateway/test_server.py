from __future__ import annotations

import pytest

from headrace.errors import HeadraceError
from headrace.gateway.server import serve
from headrace.gateway.settings import GatewaySettings
from headrace.kafka.cluster import Cluster


def test_address_that_other_machines_reach_must_be_allowed(cluster: Cluster) -> None:
    with pytest.raises(HeadraceError, match=r"read and write all topics.*--insecure"):
        serve(cluster, GatewaySettings(host="0.0.0.0", port=0))
