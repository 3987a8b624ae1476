"""What only views in OpenSearch do; `tests/contract` checks the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.pipeline.sinks.opensearch_client import OpenSearchClient
from headrace.testing import free_port
from headrace.views.definition import Definition
from headrace.views.errors import BadView, ViewUnavailable
from headrace.views.stores.opensearch import OpenSearchViews
from tests.contract.other_view_stores import opensearch_place, row


def test_server_that_is_away_is_unavailable(tmp_path: Path) -> None:
    at = f"http://ada:secret@127.0.0.1:{free_port()}"
    store = OpenSearchViews(
        Definition(name="users", topics=("t",), key=("id",), store="opensearch", at=at), tmp_path
    )
    with pytest.raises(ViewUnavailable, match="no response") as raised:
        store.check()
    assert "secret" not in str(raised.value)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_name_is_an_alias_of_one_index_and_not_that_of_others(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    place = opensearch_place(request, tmp_path)
    name = place.definition.name
    for version in (1, 2):
        place.build(version, [row("Oslo", version)])
        place.store().switch(version)
    client = OpenSearchClient(place.definition.at)
    assert list(client.request("GET", f"/_alias/{name}")) == [f"{name}__2"]
    (hit,) = client.request("GET", f"/{name}/_search?q=city:oslo")["hits"]["hits"]
    assert hit["_source"] == {"city": "Oslo", "users": 2}
    other = {"actions": [{"add": {"index": f"{name}__1", "alias": name}}]}
    client.request("POST", "/_aliases", other)
    client.close()
    with pytest.raises(BadView, match="another alias of this name"):
        place.store().served()
