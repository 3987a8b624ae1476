"""ApiVersions over the wire."""

from __future__ import annotations

import pytest

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headrace.testing.wire import Wire, decode_response, encode_request


@pytest.mark.parametrize("version", range(5))
def test_every_version_lists_the_apis_with_their_versions(wire: Wire, version: int) -> None:
    response = wire.request(ApiVersionsRequest(), version=version)
    served = {one.api_key: (one.min_version, one.max_version) for one in response.api_keys}
    assert response.error_code == 0
    assert served[ApiKey.API_VERSIONS] == (0, 4)
    assert {ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.SHARE_FETCH} <= served.keys()
    assert list(served) == sorted(served)


def test_newer_version_gets_a_response_of_the_oldest_version(wire: Wire) -> None:
    frame = bytearray(encode_request(ApiVersionsRequest(), 4, 7, "wire"))
    frame[2:4] = (99).to_bytes(2, "big")
    wire.send_frame(bytes(frame))
    response = decode_response(wire.receive_frame(), ApiVersionsResponse, 0)
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert ApiKey.API_VERSIONS in {one.api_key for one in response.api_keys}
    assert wire.request(ApiVersionsRequest()).error_code == 0, "the connection stays usable"


def test_features_with_a_lowest_level_of_0_are_hidden_from_clients_that_reject_it(wire: Wire) -> None:
    old, new = (wire.request(ApiVersionsRequest(), version=version) for version in (3, 4))
    assert all(one.min_version > 0 for one in old.supported_features)
    assert {one.name for one in old.supported_features} < {one.name for one in new.supported_features}
    assert {one.name for one in old.finalized_features} == {one.name for one in new.finalized_features}
