"""Errors of encryption per person."""

from __future__ import annotations

from headrace.errors import HeadraceError


class BadKeyStore(HeadraceError):
    """The file is no key store, or the master key is another one."""


class SubjectShredded(HeadraceError):
    """The key of this person was destroyed, so nothing more can be encrypted for them."""


class BadCiphertext(HeadraceError):
    """The bytes were not encrypted with a key of this store, or were changed since."""
