"""The errors of schemas."""

from headrace.errors import HeadraceError
from headrace.schemas.errors import InvalidSchema


def test_an_invalid_schema_is_an_error_for_users() -> None:
    assert issubclass(InvalidSchema, HeadraceError)
