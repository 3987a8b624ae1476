"""One key for each person, in a SQLite file; destroying a key is the erasure of everything encrypted with it.

A key is encrypted by the master key, which is in another file. A person is stored as a digest. A destroyed key leaves
its id, so that a reader can tell a destroyed key from one of another store.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from headrace.shredding.errors import BadKeyStore, SubjectShredded
from headrace.shredding.sealing import KEY_BYTES, NotSealed, seal, unseal
from headrace.sync import sync_directory, sync_file

KEY_ID_BYTES = 16
SALT_BYTES = 16

BUSY_TIMEOUT_S = 30.0
"""Several processes share a store. A VACUUM after a destroyed key takes a moment."""

CACHE_KEYS_MAX = 10_000
"""A key is 32 bytes; looking one up takes some microseconds."""

_TABLES = """
CREATE TABLE IF NOT EXISTS store (name TEXT PRIMARY KEY, value BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS keys (
    id BLOB PRIMARY KEY,
    person BLOB NOT NULL,
    wrapped BLOB,
    destroyed_ms INTEGER
);
CREATE INDEX IF NOT EXISTS keys_of_person ON keys (person);
"""
_MASTER_CHECK = b"headrace key store"


class DataKey(Struct, frozen=True, kw_only=True):
    id: bytes
    key: bytes


def create_master_key(path: str | os.PathLike[str]) -> None:
    """A new random master key in a file that only its owner can read. An existing file is kept."""
    with contextlib.suppress(FileExistsError):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(secrets.token_bytes(KEY_BYTES).hex().encode() + b"\n")
            file.flush()
            sync_file(file.fileno())
        sync_directory(Path(path).resolve().parent)


class KeyStore:
    """Keys of people, for the processes of one machine.

        create_master_key("master.key")
        keys = KeyStore("keys.db", master="master.key")

    Without `master` a store can only destroy keys. It is opened again in another process (of Spark, for example) when
    it is pickled: only the two paths are.
    """

    def __init__(self, path: str | os.PathLike[str], *, master: str | os.PathLike[str] | None = None) -> None:
        self._path = Path(path)
        self._master_path = None if master is None else Path(master)
        if master is None and not self._path.exists():
            raise BadKeyStore(
                f"there is no key store {self._path}", hint="a store is created where its master key is given"
            )
        self._master = None if self._master_path is None else _read_master(self._master_path)
        self._connection = self._open()
        self._salt = self._meta("salt", secrets.token_bytes(SALT_BYTES))
        self._check_master()
        self._lock = threading.RLock()
        self._version = -1
        self._by_id: dict[bytes, DataKey | None] = {}
        self._by_subject: dict[str, DataKey] = {}

    def __reduce__(self) -> tuple[object, ...]:
        return _reopened, (str(self._path), None if self._master_path is None else str(self._master_path))

    def _open(self) -> sqlite3.Connection:
        try:
            connection = sqlite3.connect(
                self._path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
            )
            # A deleted key is overwritten with zeros, in the file and before the commit is durable.
            connection.execute("PRAGMA secure_delete = ON")
            connection.execute("PRAGMA synchronous = EXTRA")
            connection.executescript(_TABLES)
        except sqlite3.DatabaseError as error:
            raise BadKeyStore(
                f"{self._path} is not a key store: {error}", hint="name the file that KeyStore(…) created"
            ) from error
        self._path.chmod(0o600)
        return connection

    def _meta(self, name: str, new: bytes) -> bytes:
        """A value of the store, which is set when it is first needed."""
        self._connection.execute("INSERT OR IGNORE INTO store VALUES (?, ?)", (name, new))
        (found,) = self._connection.execute("SELECT value FROM store WHERE name = ?", (name,)).fetchone()
        return bytes(found)

    def _check_master(self) -> None:
        if self._master is None:
            return
        check = self._meta("check", self._wrap(_MASTER_CHECK, b"check"))
        try:
            unseal(self._master, check, b"check")
        except NotSealed:
            raise BadKeyStore(
                f"{self._master_path} is not the master key of {self._path}",
                hint="give the master key with which the store was created, or last rotated",
            ) from None

    # Keys

    def key_of(self, subject: str) -> DataKey:
        """The key of a person; a new one for a new person."""
        with self._lock:
            self._forget_if_changed()
            found = self._by_subject.get(subject)
            if found is None:
                found = self._read_key(subject) or self._create_key(subject)
                if len(self._by_subject) >= CACHE_KEYS_MAX:
                    self._by_subject.clear()
                self._by_subject[subject] = found
            return found

    def key(self, key_id: bytes) -> DataKey | None:
        """A key by its id; None if it was destroyed. LookupError: it is not of this store."""
        with self._lock:
            self._forget_if_changed()
            if key_id not in self._by_id:
                row = self._connection.execute("SELECT wrapped FROM keys WHERE id = ?", (key_id,)).fetchone()
                if row is None:
                    raise LookupError(key_id)
                if len(self._by_id) >= CACHE_KEYS_MAX:
                    self._by_id.clear()
                self._by_id[key_id] = None if row[0] is None else self._unwrap(key_id, row[0])
            return self._by_id[key_id]

    def destroy(self, subject: str) -> int:
        """Destroy the keys of a person, durably. Returns how many there were. Repeating it completes a killed one."""
        with self._writing():
            cursor = self._connection.execute(
                "UPDATE keys SET wrapped = NULL, destroyed_ms = ? WHERE person = ? AND wrapped IS NOT NULL",
                (time.time_ns() // 1_000_000, self._digest(subject)),
            )
            destroyed = cursor.rowcount
        self._vacuum()
        return destroyed

    def live_keys(self, subject: str) -> int:
        """How many keys of a person can still decrypt."""
        (count,) = self._connection.execute(
            "SELECT count(*) FROM keys WHERE person = ? AND wrapped IS NOT NULL", (self._digest(subject),)
        ).fetchone()
        return int(count)

    def renew(self, subject: str) -> None:
        """Give a person a new key, after the old one was destroyed: they are a customer again."""
        self._create_key(subject, is_renewal=True)

    def rotate_master(self, master: str | os.PathLike[str]) -> None:
        """Encrypt all keys by another master key. Without the old one, older copies of the store are useless."""
        new = _read_master(Path(master))
        with self._writing():
            rows = self._connection.execute(
                "SELECT id, wrapped FROM keys WHERE wrapped IS NOT NULL"
            ).fetchall()
            rewrapped = [(seal(new, self._unwrap(each, old).key, each), each) for each, old in rows]
            self._connection.executemany("UPDATE keys SET wrapped = ? WHERE id = ?", rewrapped)
            self._connection.execute(
                "UPDATE store SET value = ? WHERE name = 'check'", (seal(new, _MASTER_CHECK, b"check"),)
            )
        self._vacuum()
        self._master, self._master_path = new, Path(master)

    def close(self) -> None:
        self._connection.close()

    def _read_key(self, subject: str) -> DataKey | None:
        rows = self._connection.execute(
            "SELECT id, wrapped FROM keys WHERE person = ? ORDER BY wrapped IS NULL", (self._digest(subject),)
        ).fetchall()
        if not rows:
            return None
        key_id, wrapped = rows[0]
        if wrapped is None:
            raise SubjectShredded(
                f"the key of {subject!r} was destroyed", hint="`KeyStore.renew` gives the person a new key"
            )
        return self._unwrap(key_id, wrapped)

    def _create_key(self, subject: str, *, is_renewal: bool = False) -> DataKey:
        key_id, key = secrets.token_bytes(KEY_ID_BYTES), secrets.token_bytes(KEY_BYTES)
        with self._writing():
            # Another process may have created it, or destroyed it, since it was looked for.
            if is_renewal and self.live_keys(subject):
                return self.key_of(subject)
            found = None if is_renewal else self._read_key(subject)
            if found is not None:
                return found
            self._connection.execute(
                "INSERT INTO keys VALUES (?, ?, ?, NULL)",
                (key_id, self._digest(subject), self._wrap(key, key_id)),
            )
        return DataKey(id=key_id, key=key)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    def _vacuum(self) -> None:
        """Rewrite the file, so that no page has an older copy of a row."""
        with self._lock:
            self._connection.execute("VACUUM")
            self._by_id.clear()
            self._by_subject.clear()

    def _forget_if_changed(self) -> None:
        """Another process may have destroyed a key: SQLite tells by a number whether it changed the file."""
        (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        if version != self._version:
            self._version = version
            self._by_id.clear()
            self._by_subject.clear()

    def _digest(self, subject: str) -> bytes:
        return hashlib.sha256(self._salt + subject.encode()).digest()

    def _wrap(self, secret: bytes, context: bytes) -> bytes:
        if self._master is None:
            raise BadKeyStore(
                f"{self._path} was opened without its master key", hint="KeyStore(…, master=FILE)"
            )
        return seal(self._master, secret, context)

    def _unwrap(self, key_id: bytes, wrapped: bytes) -> DataKey:
        if self._master is None:
            raise BadKeyStore(
                f"{self._path} was opened without its master key", hint="KeyStore(…, master=FILE)"
            )
        try:
            key = unseal(self._master, wrapped, key_id)
        except NotSealed:
            raise BadKeyStore(
                f"a key of {self._path} is damaged, or has another master key", hint="restore the store"
            ) from None
        return DataKey(id=key_id, key=key)


def _reopened(path: str, master: str | None) -> KeyStore:
    return KeyStore(path, master=master)


def _read_master(path: Path) -> bytes:
    try:
        key = bytes.fromhex(path.read_text().strip())
    except FileNotFoundError:
        raise BadKeyStore(
            f"there is no master key {path}", hint="create_master_key(PATH) creates one"
        ) from None
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise BadKeyStore(
            f"{path} is not a master key", hint=f"it has {2 * KEY_BYTES} hexadecimal digits on one line"
        )
    return key
