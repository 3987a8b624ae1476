"""The key store: one key per person, destroyed durably, also when its process is killed in between."""

from __future__ import annotations

import pickle
import random
import signal
import sqlite3
import stat
import threading
import time
from pathlib import Path

import pytest

from headrace.shredding import BadKeyStore, KeyedCipher, KeyStore, SubjectShredded, create_master_key
from tests.shredding import destroying_process

PEOPLE = 60


def wrapped_key(path: Path, key_id: bytes) -> bytes:
    with sqlite3.connect(path) as connection:
        (found,) = connection.execute("SELECT wrapped FROM keys WHERE id = ?", (key_id,)).fetchone()
    connection.close()
    return bytes(found)


def bytes_on_disk(folder: Path) -> bytes:
    return b"".join(each.read_bytes() for each in folder.glob("keys.db*"))


def test_person_has_one_key_in_all_processes(store: KeyStore, tmp_path: Path, master: Path) -> None:
    other = KeyStore(tmp_path / "keys.db", master=master)
    assert store.key_of("ada") == other.key_of("ada")
    assert store.key_of("ada") != store.key_of("grace")


def test_threads_that_ask_for_a_new_person_get_the_same_key(store: KeyStore) -> None:
    found = []
    threads = [threading.Thread(target=lambda: found.append(store.key_of("ada"))) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(found) == 8
    assert len({each.id for each in found}) == 1


def test_destroyed_key_is_in_no_file_and_its_id_stays_known(store: KeyStore, tmp_path: Path) -> None:
    key, kept = store.key_of("ada"), store.key_of("grace")
    wrapped = wrapped_key(tmp_path / "keys.db", key.id)
    assert wrapped in bytes_on_disk(tmp_path)
    assert store.destroy("ada") == 1
    assert wrapped not in bytes_on_disk(tmp_path)
    assert store.live_keys("ada") == 0
    assert store.key(key.id) is None
    assert store.key(kept.id) == kept
    assert store.destroy("ada") == 0


def test_store_has_neither_names_of_people_nor_plain_keys(store: KeyStore, tmp_path: Path) -> None:
    key = store.key_of("ada lovelace")
    content = bytes_on_disk(tmp_path)
    assert b"ada lovelace" not in content
    assert key.key not in content


def test_key_that_another_process_destroyed_is_not_used_from_memory(store: KeyStore, tmp_path: Path) -> None:
    key = store.key_of("ada")
    assert store.key(key.id) == key
    KeyStore(tmp_path / "keys.db").destroy("ada")
    assert store.key(key.id) is None
    with pytest.raises(SubjectShredded, match="'ada' was destroyed"):
        store.key_of("ada")


def test_person_who_returns_gets_another_key(store: KeyStore) -> None:
    old = store.key_of("ada")
    store.destroy("ada")
    store.renew("ada")
    assert store.key_of("ada").id != old.id
    assert store.key(old.id) is None
    store.renew("ada")
    assert store.live_keys("ada") == 1


def test_old_copy_of_the_store_is_useless_after_a_rotation(
    store: KeyStore, tmp_path: Path, master: Path
) -> None:
    sealed = KeyedCipher(store).encrypt("ada", b"secret")
    kept = KeyedCipher(store).encrypt("grace", b"known")
    copy = tmp_path / "backup.db"
    copy.write_bytes((tmp_path / "keys.db").read_bytes())
    store.destroy("ada")
    create_master_key(tmp_path / "next.key")
    store.rotate_master(tmp_path / "next.key")
    master.unlink()
    with pytest.raises(BadKeyStore, match=r"next\.key is not the master key"):
        KeyStore(copy, master=tmp_path / "next.key")
    again = KeyedCipher(KeyStore(tmp_path / "keys.db", master=tmp_path / "next.key"))
    assert again.decrypt(kept) == b"known"
    assert again.decrypt(sealed) is None


def test_files_are_readable_by_their_owner_only(store: KeyStore, tmp_path: Path, master: Path) -> None:
    assert {stat.S_IMODE(each.stat().st_mode) for each in (master, tmp_path / "keys.db")} == {0o600}


def test_pickled_store_has_paths_and_no_key(store: KeyStore, master: Path) -> None:
    key = store.key_of("ada")
    pickled = pickle.dumps(store)
    assert master.read_text().strip().encode() not in pickled
    assert pickle.loads(pickled).key_of("ada") == key


def test_existing_master_key_is_kept(master: Path) -> None:
    before = master.read_text()
    create_master_key(master)
    assert master.read_text() == before


def test_wrong_files_are_errors(store: KeyStore, tmp_path: Path, master: Path) -> None:
    (tmp_path / "text").write_text("no store, and no key either: " * 100)
    create_master_key(tmp_path / "other.key")
    with pytest.raises(BadKeyStore, match="is not a key store"):
        KeyStore(tmp_path / "text", master=master)
    with pytest.raises(BadKeyStore, match="is not a master key"):
        KeyStore(tmp_path / "keys.db", master=tmp_path / "text")
    with pytest.raises(BadKeyStore, match=r"other\.key is not the master key"):
        KeyStore(tmp_path / "keys.db", master=tmp_path / "other.key")
    with pytest.raises(BadKeyStore, match="there is no key store"):
        KeyStore(tmp_path / "none.db")
    with pytest.raises(BadKeyStore, match="without its master key"):
        KeyStore(tmp_path / "keys.db").key_of("ada")


def test_killed_process_leaves_each_key_whole_or_destroyed(
    store: KeyStore, tmp_path: Path, master: Path
) -> None:
    path = tmp_path / "keys.db"
    keys = [store.key_of(f"person {number}") for number in range(PEOPLE)]
    wrapped = [wrapped_key(path, each.id) for each in keys]
    store.close()
    choice, done = random.Random(PEOPLE), 0
    for _ in range(4):
        with destroying_process.start(path, done, PEOPLE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            time.sleep(choice.uniform(0, 0.05))
            process.send_signal(signal.SIGKILL)
            reported = [int(line) for line in process.stdout.read().splitlines()]
        done = max([done, *(number + 1 for number in reported)])
        again = KeyStore(path, master=master)
        found = [again.key(each.id) for each in keys]
        # What was reported is destroyed. Of the next one, nobody knows; the others are whole.
        assert found[:done] == [None] * done
        assert found[done + 1 :] == keys[done + 1 :]
        again.close()
    KeyStore(path).destroy(f"person {done}")
    content = bytes_on_disk(tmp_path)
    assert [each in content for each in wrapped] == [False] * (done + 1) + [True] * (PEOPLE - done - 1)
