"""The errors of registries and of records with the id of a schema."""

from __future__ import annotations

from headrace.errors import HeadraceError


class RegistryUnavailable(HeadraceError):
    """The registry cannot be reached now, or cannot answer now. The same request may succeed later."""


class RequestRejected(HeadraceError):
    """The registry does not have what was requested, or does not accept it."""

    def __init__(self, message: str, *, hint: str = "", code: int) -> None:
        super().__init__(message, hint=hint)
        self.code = code
        """As in Confluent's API: 40401, 409, 42201."""

    @property
    def is_missing(self) -> bool:
        return self.code // 100 == 404 or self.code == 404


class BadRecord(Exception):
    """A record that is not of its schema. The message is the reason of a dead letter."""
