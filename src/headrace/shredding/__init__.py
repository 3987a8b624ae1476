"""Encryption per person, for logs that must stay: destroying the key of a person erases all that it encrypted.

    from headrace.shredding import KeyedCipher, KeyStore, create_master_key

    create_master_key("master.key")
    cipher = KeyedCipher(KeyStore("keys.db", master="master.key"))

`FieldCipher` encrypts chosen fields of JSON values. `headrace erase KEY --shred --keys FILE` destroys a key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.exports import lazy_exports

if TYPE_CHECKING:
    from headrace.shredding.cipher import KeyedCipher, is_encrypted
    from headrace.shredding.errors import BadCiphertext, BadKeyStore, SubjectShredded
    from headrace.shredding.fields import FieldCipher
    from headrace.shredding.key_store import KeyStore, create_master_key
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "cipher": ("KeyedCipher", "is_encrypted"),
            "errors": ("BadCiphertext", "BadKeyStore", "SubjectShredded"),
            "fields": ("FieldCipher",),
            "key_store": ("KeyStore", "create_master_key"),
        },
    )

__all__ = [
    "BadCiphertext",
    "BadKeyStore",
    "FieldCipher",
    "KeyStore",
    "KeyedCipher",
    "SubjectShredded",
    "create_master_key",
    "is_encrypted",
]
