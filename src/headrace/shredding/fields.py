"""Encryption of chosen fields of JSON values: keys and the other fields stay readable, for jobs and for compaction."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from typing import Any

from headrace.shredding.cipher import KeyedCipher
from headrace.shredding.errors import BadCiphertext

PREFIX = "encrypted:"
"""Of the text that replaces a field; base64 follows."""


class FieldCipher:
    """Encrypts the fields of a JSON object with the key of the person whom another field names.

    orders = FieldCipher(cipher, subject="user", fields=["name", "ship_to.street"])
    producer.produce("orders", key="o1", value=orders.encrypt({"user": "ada", "name": "Ada", "total": 12}))
    orders.decrypt(message.value())   # {"user": "ada", "name": None, "total": 12} once the key is destroyed
    """

    def __init__(self, cipher: KeyedCipher, *, subject: str, fields: Sequence[str]) -> None:
        self._cipher = cipher
        self._subject = subject
        self._fields = tuple(fields)

    def encrypt(self, value: dict[str, Any] | bytes | str) -> bytes:
        """JSON with the fields encrypted. A missing field stays missing; null is encrypted like any value."""
        document = _document(value)
        subject = _get(document, self._subject)
        if not isinstance(subject, str | int) or isinstance(subject, bool):
            raise BadCiphertext(
                f"the value names no person in its field {self._subject!r}", hint="a text or an integer"
            )
        for field in self._fields:
            holder, name = _holder(document, field)
            if holder is not None and name in holder:
                plaintext = json.dumps(holder[name]).encode()
                sealed = self._cipher.encrypt(str(subject), plaintext, context=field.encode())
                holder[name] = PREFIX + base64.b64encode(sealed).decode()
        return json.dumps(document, ensure_ascii=False).encode()

    def decrypt(self, value: dict[str, Any] | bytes | str) -> dict[str, Any]:
        """The object with plain fields; None for a field whose key was destroyed. Plain fields stay as they are."""
        document = _document(value)
        for field in self._fields:
            holder, name = _holder(document, field)
            text = None if holder is None else holder.get(name)
            if holder is not None and isinstance(text, str) and text.startswith(PREFIX):
                holder[name] = self._plain(text, field)
        return document

    def _plain(self, text: str, field: str) -> Any:
        try:
            sealed = base64.b64decode(text.removeprefix(PREFIX), validate=True)
        except binascii.Error:
            raise BadCiphertext(f"field {field!r} has no encrypted value", hint="it was changed") from None
        plaintext = self._cipher.decrypt(sealed, context=field.encode())
        return None if plaintext is None else json.loads(plaintext)


def _document(value: dict[str, Any] | bytes | str) -> dict[str, Any]:
    try:
        # A copy, so that the caller's object does not change.
        document = json.loads(json.dumps(value) if isinstance(value, dict) else value)
    except ValueError as error:
        raise BadCiphertext(f"the value is not JSON: {error}", hint="encrypt it as bytes instead") from None
    if not isinstance(document, dict):
        raise BadCiphertext("the value is not a JSON object", hint="encrypt it as bytes instead")
    return document


def _holder(document: dict[str, Any], path: str) -> tuple[dict[str, Any] | None, str]:
    """The object that has the last field of a path; None if there is none."""
    *outer, name = path.split(".")
    found: Any = document
    for each in outer:
        found = found.get(each) if isinstance(found, dict) else None
    return (found if isinstance(found, dict) else None), name


def _get(document: dict[str, Any], path: str) -> Any:
    holder, name = _holder(document, path)
    return None if holder is None else holder.get(name)
