"""The cache of archived pieces: bounded, thrown away at a start, and never needed."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headrace.log.archive.cache import ArchiveCache


def must_not_load() -> bytes:
    raise AssertionError("it was in the cache")


def test_piece_is_loaded_once_and_read_in_parts(tmp_path: Path) -> None:
    cache = ArchiveCache(str(tmp_path / "cache"), bytes_max=100)
    assert cache.read("a", 2, 3, lambda: b"0123456789") == b"234"
    assert cache.read("a", 8, 9, must_not_load) == b"89"
    assert (cache.hits, cache.misses, cache.size_bytes) == (1, 1, 10)


def test_least_recently_used_chunk_is_evicted(tmp_path: Path) -> None:
    cache = ArchiveCache(str(tmp_path / "cache"), bytes_max=30)
    for key in "abc":
        cache.read(key, 0, 1, lambda: b"x" * 10)
    cache.read("a", 0, 1, must_not_load)
    cache.read("d", 0, 1, lambda: b"x" * 10)
    assert cache.size_bytes == 30
    cache.read("a", 0, 1, must_not_load)
    misses = cache.misses
    cache.read("b", 0, 1, lambda: b"x" * 10)
    assert cache.misses == misses + 1
    assert sum(path.stat().st_size for path in (tmp_path / "cache").iterdir()) == 30


def test_piece_that_is_larger_than_the_cache_is_read_all_the_same(tmp_path: Path) -> None:
    cache = ArchiveCache(str(tmp_path / "cache"), bytes_max=0)
    assert cache.read("a", 1, 2, lambda: b"abcd") == b"bc"
    assert cache.size_bytes == 0
    assert not (tmp_path / "cache").exists()


def test_full_disk_fails_no_read(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    cache = ArchiveCache(str(tmp_path / "cache"), bytes_max=100)
    assert cache.read("a", 0, 4, lambda: b"abcd") == b"abcd"
    assert cache.size_bytes == 0


def test_file_that_somebody_removed_is_loaded_again(tmp_path: Path) -> None:
    cache = ArchiveCache(str(tmp_path / "cache"), bytes_max=100)
    cache.read("a", 0, 4, lambda: b"abcd")
    for path in (tmp_path / "cache").iterdir():
        path.unlink()
    assert cache.read("a", 0, 4, lambda: b"abcd") == b"abcd"
    assert cache.size_bytes == 4


def test_nothing_of_an_earlier_process_is_kept(tmp_path: Path) -> None:
    ArchiveCache(str(tmp_path / "cache"), bytes_max=100).read("a", 0, 1, lambda: b"abcd")
    assert list((tmp_path / "cache").iterdir())
    ArchiveCache(str(tmp_path / "cache"), bytes_max=100).clear()
    assert not (tmp_path / "cache").exists()


def test_readers_of_the_same_piece_share_one_load(tmp_path: Path) -> None:
    cache = ArchiveCache(str(tmp_path / "cache"), bytes_max=100)
    began, go_on = threading.Event(), threading.Event()
    loads: list[int] = []

    def load() -> bytes:
        loads.append(1)
        began.set()
        assert go_on.wait(30)
        return b"abcd"

    with ThreadPoolExecutor(4) as threads:
        answers = [threads.submit(cache.read, "a", 0, 4, load) for _ in range(4)]
        assert began.wait(30)
        go_on.set()
        assert [answer.result() for answer in answers] == [b"abcd"] * 4
    assert len(loads) == 1


def test_load_that_fails_fails_only_its_reader(tmp_path: Path) -> None:
    cache = ArchiveCache(str(tmp_path / "cache"), bytes_max=100)

    def fail() -> bytes:
        raise OSError("no")

    with pytest.raises(OSError, match="no"):
        cache.read("a", 0, 4, fail)
    assert cache.read("a", 0, 4, lambda: b"abcd") == b"abcd"
