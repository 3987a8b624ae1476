from __future__ import annotations

import statistics
from collections import Counter, defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from headrace.edges.statsd.lines import BadLine, Garbage, parse_line, tags_of
from headrace.edges.statsd.series import TYPES, VALUES_FEW, Bounds, Series, Window, percentiles
from headrace.edges.statsd.settings import BOUNDS

Key = tuple[str, str, str]


def window_of(
    *packets: bytes, bounds: Bounds = BOUNDS, gauges: dict[bytes, float] | None = None
) -> tuple[Window, Counter[Garbage]]:
    garbage: Counter[Garbage] = Counter()

    def on_garbage(_line: bytes, reason: Garbage, times: int) -> None:
        garbage[reason] += times

    window = Window(bounds, {} if gauges is None else gauges, on_garbage)
    window.add(packets)
    return window, garbage


def only(window: Window) -> Series:
    (series,) = window.series()
    return series


def test_counters_are_added_up_by_their_sampling_rate() -> None:
    window, _ = window_of(b"a:1|c\na:2|c|@0.5", b"a:1|c", b"a:2|c|@0.5")
    assert (only(window).total, window.metrics) == (10.0, 4)


def test_gauge_keeps_its_last_value_and_adds_signed_ones() -> None:
    gauges: dict[bytes, float] = {}
    assert only(window_of(b"a:5|g", b"a:7|g", b"a:5|g", gauges=gauges)[0]).total == 5
    assert only(window_of(b"a:+3|g\na:-1|g", gauges=gauges)[0]).total == 7


def test_timer_has_all_its_values_and_weighs_them_by_rate() -> None:
    window, _ = window_of(b"a:1|ms\na:3|ms\na:2:2|ms|@0.5\na:3|ms")
    series = only(window)
    assert sorted(series.values) == [1, 2, 2, 3, 3]
    assert (series.count, series.total, series.least, series.most) == (7, 15, 1, 3)


def test_set_counts_different_members() -> None:
    window, _ = window_of(b"a:x|s\na:y|s", b"a:x|s")
    assert only(window).members == {b"x", b"y"}


def test_tags_in_another_order_are_the_same_series_and_other_tags_another() -> None:
    window, _ = window_of(b"a:1|c|#x:1,y:2\na:1|c|#y:2,x:1\na:1|c|#x:1,y:2\na:1|c|#x:2\na:1|c")
    assert sorted((sorted(each.tags.items()), each.total) for each in window.series()) == [
        ([], 1.0),
        ([("x", "1"), ("y", "2")], 3.0),
        ([("x", "2")], 1.0),
    ]


def test_garbage_is_counted_by_reason_and_harms_nothing() -> None:
    window, garbage = window_of(b"a:1|c\nbad\nbad\n\r\n\na:1|q\na:1e999|c\na:1|c\r\n", b"")
    assert (only(window).total, window.metrics) == (2, 2)
    assert garbage == {Garbage.NO_VALUE: 2, Garbage.UNKNOWN_TYPE: 1, Garbage.BAD_VALUE: 1}


def test_memory_is_bounded() -> None:
    bounds = replace(BOUNDS, series_max=2, members_max=2, line_bytes_max=20)
    window, garbage = window_of(b"a:1|c\nb:1|c\nc:1|c\nc:1|c", bounds=bounds)
    assert (len(window), garbage) == (2, {Garbage.TOO_MANY: 2})
    window, garbage = window_of(b"a:1|s\na:2|s\na:3|s\na:1|s", bounds=bounds)
    assert (len(only(window).members or ()), garbage) == (2, {Garbage.TOO_MANY: 1})
    assert window_of(b"a" * 30 + b":1|c", bounds=bounds)[1] == {Garbage.TOO_LONG: 1}
    gauges = {b"x|": 1.0, b"y|": 1.0}
    assert window_of(b"a:1|g", bounds=bounds, gauges=gauges)[1] == {Garbage.TOO_MANY: 1}


def test_timer_with_too_many_values_keeps_a_fair_sample() -> None:
    bounds = replace(BOUNDS, values_max=200)
    packets = [
        b"\n".join(b"a:%d|ms" % value for value in range(start, start + 100))
        for start in range(0, 20_000, 100)
    ]
    window, _ = window_of(*packets, bounds=bounds)
    series = only(window)
    assert (series.count, series.most, len(series.values)) == (20_000, 19_999, 200)
    assert 8_000 < statistics.mean(series.values) < 12_000


def test_all_timers_together_are_bounded() -> None:
    bounds = replace(BOUNDS, metrics_exact_max=50)
    window, _ = window_of(b"\n".join(b"a:%d|ms" % value for value in range(100)), bounds=bounds)
    window.add([b"\n".join(b"b:%d|ms" % value for value in range(1000))])
    assert {each.name: len(each.values) for each in window.series()} == {"a": 100, "b": VALUES_FEW}


def test_value_that_came_often_counts_as_often() -> None:
    window, _ = window_of(*[b"a:1|ms"] * 5, b"a:2|ms")
    assert sorted(only(window).values) == [1, 1, 1, 1, 1, 2]


@pytest.mark.parametrize(("wanted", "value"), [(1, 1), (50, 5), (51, 6), (90, 9), (99, 10), (100, 10)])
def test_percentile_is_the_nearest_rank(wanted: int, value: float) -> None:
    assert percentiles([10, 9, 8, 7, 6, 5, 4, 3, 2, 1], [wanted]) == [value]
    assert percentiles([3], [wanted]) == [3]


line_texts = st.builds(
    lambda name, value, kind, rate, tags: f"{name}:{value}|{kind}{rate}{tags}".encode(),
    st.sampled_from("ab"),
    st.sampled_from(["1", "-2", "+3", "0.5", "1e2", "7:8", "x", "1e999", "", "1.2.3"]),
    st.sampled_from(["c", "g", "ms", "h", "d", "s", "q"]),
    st.sampled_from(["", "|@0.5", "|@2"]),
    st.sampled_from(["", "|#x:1", "|#y,x:1"]),
)


@given(st.lists(line_texts, max_size=30), st.integers(1, 5))
def test_window_is_what_the_lines_one_by_one_say(lines: list[bytes], packet_lines: int) -> None:
    """The fast path against the parser of single lines."""
    packets = [b"\n".join(lines[at : at + packet_lines]) for at in range(0, len(lines), packet_lines)]
    window, garbage = window_of()
    window, garbage = window_of(*packets[: len(packets) // 2])
    window.add(packets[len(packets) // 2 :])

    totals: dict[Key, float] = defaultdict(float)
    values: dict[Key, list[float]] = defaultdict(list)
    bad: Counter[Garbage] = Counter()
    for line in lines:
        try:
            metric = parse_line(line)
        except BadLine as error:
            bad[error.reason] += 1
            continue
        key = TYPES[metric.type], metric.name.decode(), str(tags_of(metric.tags))
        totals[key] += 0
        for value in metric.values:
            if metric.type == b"g":
                totals[key] = totals[key] + value if metric.is_delta else value
            else:
                totals[key] += value / metric.rate
                values[key].append(value)

    assert garbage == bad
    found = {(each.type, each.name, str(each.tags)): each for each in window.series()}
    assert found.keys() == totals.keys()
    for key, series in found.items():
        assert series.total == pytest.approx(totals[key])
        if key[0] in ("timer", "histogram", "distribution"):
            assert sorted(series.values) == sorted(values[key])
