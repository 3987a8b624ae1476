"""What a view may be."""

from __future__ import annotations

import pytest

from headrace.views.definition import Definition
from headrace.views.errors import BadView


@pytest.mark.parametrize(
    "name", ["", "Users", "1st", "a b", "users__1", "a" * 41, "users_", 'x"y', "a.b", "ü"]
)
def test_name_that_does_not_fit_every_store_is_rejected(name: str) -> None:
    with pytest.raises(BadView, match="cannot be the name of a view"):
        Definition(name=name, topics=("t",), key=("id",))


def test_view_needs_a_key() -> None:
    with pytest.raises(BadView, match="has no key"):
        Definition(name="users", topics=("t",), key=())


def test_view_reads_topics_or_a_script() -> None:
    with pytest.raises(BadView, match="reads nothing"):
        Definition(name="users", topics=(), key=("id",))
    with pytest.raises(BadView, match="topics and a script"):
        Definition(name="users", topics=("t",), script="x.py:f", key=("id",))


def test_versions_are_found_by_their_names() -> None:
    users = Definition(name="users", topics=("t",), key=("id",))
    assert users.version_of(users.physical(12)) == 12
    assert users.version_of("users") is None
    assert users.version_of("users_by_city__1") is None
    assert users.version_of("users__x") is None
