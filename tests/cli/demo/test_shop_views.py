"""The views of `headrace run`: which there are. `test_run` runs them."""

from __future__ import annotations

from pathlib import Path

from headrace.cli.demo.shop_views import CACHE, INDEX, TABLE, definitions, redis_socket


def test_there_is_a_cache_only_where_redis_runs(tmp_path: Path) -> None:
    assert [each.name for each in definitions(tmp_path)] == [TABLE, INDEX]
    redis_socket(tmp_path).parent.mkdir()
    redis_socket(tmp_path).touch()
    found = definitions(tmp_path)
    assert [each.name for each in found] == [TABLE, CACHE, INDEX]
    assert [each.store for each in found] == ["sqlite", "redis", "search"]
