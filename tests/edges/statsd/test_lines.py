from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.edges.statsd.lines import BadLine, Garbage, Metric, parse_line, tags_of


@pytest.mark.parametrize(
    ("line", "metric"),
    [
        (b"a:1|c", Metric(b"a", b"c", (1.0,))),
        (b"a.b-c d:-1.5e3|c|@0.1", Metric(b"a.b-c d", b"c", (-1500.0,), rate=0.1)),
        (b"a:1|g", Metric(b"a", b"g", (1.0,))),
        (b"a:+1|g", Metric(b"a", b"g", (1.0,), is_delta=True)),
        (b"a:-1|g", Metric(b"a", b"g", (-1.0,), is_delta=True)),
        (b"a:320|ms|@1", Metric(b"a", b"ms", (320.0,))),
        (b"a:1:2:3|d|#x:y", Metric(b"a", b"d", (1.0, 2.0, 3.0), tags=b"x:y")),
        (b"a:.5|h|#x:y,z|@0.5", Metric(b"a", b"h", (0.5,), rate=0.5, tags=b"x:y,z")),
        (b"a:user:1|s", Metric(b"a", b"s", (), (b"user:1",))),
        (b"a:1|c|#x:y|T1656581400|c:ci-abc", Metric(b"a", b"c", (1.0,), tags=b"x:y")),
    ],
)
def test_line_is_a_metric(line: bytes, metric: Metric) -> None:
    assert parse_line(line) == metric


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", Garbage.NO_VALUE),
        (b"a", Garbage.NO_VALUE),
        (b"a:", Garbage.NO_VALUE),
        (b"a:|c", Garbage.NO_VALUE),
        (b"a:1", Garbage.NO_TYPE),
        (b"a:1|", Garbage.NO_TYPE),
        (b"a:1|x", Garbage.UNKNOWN_TYPE),
        (b"a:1|C", Garbage.UNKNOWN_TYPE),
        (b"a:x|c", Garbage.BAD_VALUE),
        (b"a:1_0|c", Garbage.BAD_VALUE),
        (b"a:nan|g", Garbage.BAD_VALUE),
        (b"a:1e999|ms", Garbage.BAD_VALUE),
        (b"a:1:x|ms", Garbage.BAD_VALUE),
        (b"a: 1|c", Garbage.BAD_VALUE),
        (b"a:1|c|@0", Garbage.BAD_RATE),
        (b"a:1|c|@1.1", Garbage.BAD_RATE),
        (b"a:1|c|@", Garbage.BAD_RATE),
        (b":1|c", Garbage.BAD_NAME),
        (b"\xff:1|c", Garbage.BAD_NAME),
        (b"a:1|c|#\xff", Garbage.BAD_TAGS),
        (b"a:1|c|what", Garbage.UNKNOWN_FIELD),
        (b"_e{5,4}:title|text", Garbage.UNSUPPORTED),
        (b"_sc|name|0", Garbage.UNSUPPORTED),
    ],
)
def test_line_that_is_no_metric_has_its_reason(line: bytes, reason: Garbage) -> None:
    with pytest.raises(BadLine) as raised:
        parse_line(line)
    assert raised.value.reason is reason


@given(st.binary(max_size=60) | st.text("abc:|@#0123456789.+-egmscdhT,_\xe9", max_size=40).map(str.encode))
def test_any_bytes_are_a_metric_or_garbage_with_a_reason(line: bytes) -> None:
    try:
        metric = parse_line(line)
    except BadLine:
        return
    assert metric.name
    assert metric.values or metric.members
    assert all(value - value == 0 for value in metric.values)
    assert 0 < metric.rate <= 1


def test_tags_are_sorted_and_repeated_ones_keep_all_values() -> None:
    assert tags_of(b"z:1,a,b:2:3,,z:0") == {"a": "", "b": "2:3", "z": "0,1"}
    assert tags_of(b"") == {}
