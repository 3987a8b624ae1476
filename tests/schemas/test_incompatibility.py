"""One reason of an incompatibility."""

from headrace.schemas.incompatibility import Incompatibility


def test_reasons_at_other_places_differ() -> None:
    one = Incompatibility(kind="TYPE_MISMATCH", path="/a", detail="x")
    assert one != Incompatibility(kind="TYPE_MISMATCH", path="/b", detail="x")
