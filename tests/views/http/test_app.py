from __future__ import annotations

import threading
import time

from headrace.kafka.position import Position
from headrace.views.catalog import Views
from headrace.views.definition import Definition
from tests.contract.view_store_contract import TOPIC, Bench, user
from tests.views.http.conftest import Serve, Serving

ROWS = "/views/users/rows"


def test_views_are_listed(serving: Serving) -> None:
    assert serving.get("/views").json() == [{"name": "users", "state": "new", "store": "sqlite"}]


def test_view_shows_its_columns_and_how_far_it_is(serving: Serving) -> None:
    shown = serving.get("/views/users").json()
    assert shown["columns"] == {"id": "bigint", "city": "text"}
    assert (shown["key"], shown["version"], shown["is_rebuilding"]) == (["id"], 1, False)
    assert shown["offsets"] == {TOPIC: {"0": 100}}
    assert Position.from_token(shown["position"]) == Position({TOPIC: {0: 100}})


def test_rows_are_selected_ordered_and_paged(serving: Serving) -> None:
    question = {"where": "city <> 'Lima'", "order": "city DESC", "limit": 3}
    first = serving.get(ROWS, **question).json()
    assert [row["id"] for row in first["rows"]] == [1, 4, 0]
    second = serving.get(ROWS, **question, page=first["next"]).json()
    assert [row["id"] for row in second["rows"]] == [3]
    assert second["next"] is None


def test_row_is_found_by_its_key(serving: Serving) -> None:
    assert serving.get(f"{ROWS}/4").json() == {"id": 4, "city": "Rome"}
    missing = serving.get(f"{ROWS}/99")
    assert missing.status_code == 404
    assert "no row 99" in missing.json()["error"]


def test_key_of_several_columns_is_several_parts_of_the_path(bench: Bench, serve: Serve) -> None:
    definition = Definition(name="visits", topics=("visits",), key=("city", "id"))
    Views(bench.lab.folder).create(definition)
    store = bench.store("visits")
    connection = store._connection  # type: ignore[attr-defined]
    connection.execute("CREATE TABLE visits__1 (city TEXT, id BIGINT, PRIMARY KEY (city, id))")
    connection.execute("INSERT INTO visits__1 VALUES ('a/b', 7)")
    store.switch(1)
    serving = serve()
    assert serving.get("/views/visits/rows/a%2Fb/7").json() == {"city": "a/b", "id": 7}
    assert serving.get("/views/visits/rows/a").status_code == 400


BAD_REQUESTS = [
    ("/views/usrs", 404, "did you mean users?"),
    (f"{ROWS}?where=ctiy='Oslo'", 400, "did you mean city?"),
    (f"{ROWS}?where=id IN (SELECT 1)", 400, "a selection has only"),
    (f"{ROWS}?where=id=1; DROP TABLE users__1", 400, "not a selection"),
    (f"{ROWS}?where=id='one'", 400, "holds integer"),
    (f"{ROWS}?wher=id=1", 400, "did you mean where?"),
    (f"{ROWS}?limit=10001", 400, "limit"),
    (f"{ROWS}?limit=many", 400, "limit"),
    (f"{ROWS}?page=x", 400, "not the token of a page"),
    (f"{ROWS}?at_least=x", 400, "not a position"),
    (f"{ROWS}?wait=10m", 400, "too long"),
    (f"{ROWS}?where={'x' * 10_001}", 400, "where"),
    (f"{ROWS}/one", 400, "not a value of type bigint"),
    ("/views/users/search?q=oslo", 400, "--to search"),
    ("/views/users/follow?where=ctiy='Oslo'", 400, "did you mean city?"),
    ("/views/nothing/follow", 404, "GET /views"),
]


def test_bad_request_is_answered_with_a_hint(serving: Serving) -> None:
    for path, status, words in BAD_REQUESTS:
        response = serving.get(path)
        assert response.status_code == status, path
        answer = response.json()
        assert words in f"{answer['error']} {answer['hint']}", path


def test_routes_and_their_parameters_are_documented(serving: Serving) -> None:
    described = serving.get("/openapi.json").json()
    parameters = described["paths"]["/views/{name}/rows"]["get"]["parameters"]
    names = {"name", "where", "order", "limit", "page", "at_least", "wait"}
    assert {each["name"] for each in parameters} == names
    assert "Headrace views" in serving.get("/docs").text


def test_request_waits_for_its_own_write(bench: Bench, serving: Serving) -> None:
    token = Position({TOPIC: {0: 200}}).token()
    behind = serving.get(ROWS, at_least=token)
    assert (behind.status_code, behind.json()["behind"]) == (503, {f"{TOPIC}-0": 100})
    assert behind.headers["Retry-After"] == "1"

    def write_later() -> None:
        time.sleep(0.3)
        bench.write(1, [user(77)], batch=1)

    writer = threading.Thread(target=write_later)
    writer.start()
    found = serving.get(f"{ROWS}/77", at_least=token, wait="50s")
    writer.join()
    assert found.json() == {"id": 77, "city": "Oslo"}


def test_requests_go_on_during_a_switch_and_say_which_version_they_read(
    bench: Bench, serving: Serving
) -> None:
    folder = Views(bench.lab.folder).folder("users")
    folder.write_record(folder.record().with_building(bench.definition()))
    during = serving.get(ROWS).json()
    assert (during["version"], during["is_rebuilding"]) == (1, True)
    bench.write(2, [user(9)])
    bench.store().switch(2)
    folder.write_record(folder.record().switched())
    bench.store().drop(1)
    after = serving.get(ROWS).json()
    assert (after["version"], after["is_rebuilding"], after["rows"]) == (
        2,
        False,
        [{"id": 9, "city": "Oslo"}],
    )


def test_too_many_followers_are_told_to_come_back(serve: Serve) -> None:
    serving = serve(followers_max=1)
    with serving.follow("/views/users/follow") as events:
        next(events)
        rejected = serving.get("/views/users/follow")
        assert (rejected.status_code, rejected.headers["Retry-After"]) == (503, "1")
    deadline_s = time.monotonic() + 30
    while serving.views.followers:
        assert time.monotonic() < deadline_s, "a follower that left still has its place"
        time.sleep(0.02)
    with serving.follow("/views/users/follow") as events:
        next(events)


def test_name_of_another_host_is_rejected(serving: Serving) -> None:
    for path in ("/views", "/views/users/follow"):
        assert serving.client.get(path, headers={"Host": "evil.example:80"}).status_code == 403
