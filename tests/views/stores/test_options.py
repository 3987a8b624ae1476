from __future__ import annotations

import pytest

from headrace.views.definition import Definition
from headrace.views.errors import BadView
from headrace.views.stores.options import check_options, column_option


def definition(**options: str) -> Definition:
    return Definition(name="users", topics=("t",), key=("id",), store="lake", options=options)


def test_columns_are_separated_by_commas() -> None:
    assert column_option(definition(exact="city, country,"), "exact") == ("city", "country")
    assert column_option(definition(), "exact") == ()


def test_unknown_option_is_an_error_with_the_nearest_one() -> None:
    check_options(definition(exact="city"), "exact")
    with pytest.raises(BadView, match=r"no option 'exakt' \(did you mean exact\?\)"):
        check_options(definition(exakt="city"), "exact")


def test_options_with_a_prefix_are_passed_on() -> None:
    options = Definition(
        name="users", topics=("t",), key=("id",), store="lake", options={"storage.aws_region": "eu-north-1"}
    )
    check_options(options, prefix="storage.")
    with pytest.raises(BadView):
        check_options(options)
