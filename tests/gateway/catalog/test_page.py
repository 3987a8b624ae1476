"""Whatever clients register, the page shows it as text."""

from __future__ import annotations

from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from headrace.gateway.catalog.model import Catalog, EventSchema, EventType, Field, User, UserKind
from headrace.gateway.catalog.page import event_type_page, list_page
from headrace.schemas.definition import Reference

_OF_PAGES = "html head meta title style body h1 h2 p a b code span form input button"
_OF_TABLES = "table tr th td ul li"
TAGS = frozenset(f"{_OF_PAGES} {_OF_TABLES}".split(" "))
ATTRIBUTES = frozenset(
    ("lang", "charset", "name", "content", "aria-label", "placeholder", "value", "href", "class")
)


class Reader(HTMLParser):
    """Fails for anything that the page does not write itself."""

    def __init__(self) -> None:
        super().__init__()
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS
        for name, value in attrs:
            assert name in ATTRIBUTES
            assert name != "href" or (value or "").startswith("catalog.html")

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def texts(page: str) -> str:
    reader = Reader()
    reader.feed(page)
    reader.close()
    return "\n".join(reader.text)


def event_type(text: str) -> EventType:
    schema = EventSchema(
        subject=text,
        part="value",
        type="AVRO",
        id=1,
        version=1,
        versions=(1,),
        compatibility=text,
        references=(Reference(text, text, 1),),
        fields=(Field(path=text, type=text, default=text, doc=text),),
        problem=text,
    )
    user = User(UserKind.GROUP, text)
    return EventType(
        name=text,
        partitions=1,
        owner=text,
        contact=text,
        description=text,
        schemas=(schema,),
        written_by=(user,),
        read_by=(user,),
    )


HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "javascript:alert(1)",
    "</title><b>",
    "&lt;",
)


@given(st.sampled_from(HOSTILE) | st.text(max_size=40))
def test_every_text_is_shown_as_text(text: str) -> None:
    found = event_type(text)
    texts(list_page(Catalog(event_types=(found,), problems=(text,)), search=text))
    texts(event_type_page(found, (text,)))


def test_hostile_names_are_readable() -> None:
    for text in HOSTILE:
        assert texts(event_type_page(event_type(text))).count(text) >= 10


def test_the_list_has_all_columns_and_a_bound() -> None:
    page = list_page(Catalog(event_types=tuple(event_type(f"t{n}") for n in range(1_002)), problems=()))
    assert page.count("<tr>") == 1 + 1_000
    assert "only the first 1,000 are shown" in page
