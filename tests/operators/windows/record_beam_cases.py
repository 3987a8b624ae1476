"""Records `beam_cases.json` from the trigger driver of Apache Beam, which is not installed with the tests.

    pip install apache-beam==2.77.0
    python -m tests.operators.windows.record_beam_cases > tests/operators/windows/beam_cases.json

A case that `differs` is marked by hand: `test_beam_cases` explains why.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from typing import Any

from apache_beam.transforms import trigger as beam
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.window import FixedWindows, Sessions, SlidingWindows, WindowFn
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Timestamp
from apache_beam.utils.windowed_value import PaneInfoTiming, WindowedValue

SEED = 13
CASES = 200
LATENESS_S = 10**6
CONDITIONS = {"count": beam.AfterCount, "any": beam.AfterAny, "all": beam.AfterAll, "each": beam.AfterEach}
WINDOWS = {"fixed": FixedWindows, "sliding": SlidingWindows, "session": Sessions}


class StoppedClock:
    def time(self) -> float:
        return 0.0


def condition_of(spec: Any) -> Any:
    if not isinstance(spec, list):
        return spec
    kind, *arguments = spec
    return CONDITIONS[kind](*map(condition_of, arguments))


def trigger_of(spec: dict[str, Any]) -> Any:
    match spec["kind"]:
        case "default":
            return beam.DefaultTrigger()
        case "repeatedly":
            return beam.Repeatedly(condition_of(spec["condition"]))
    return beam.AfterWatermark(early=condition_of(spec["early"]), late=condition_of(spec["late"]))


def panes_of(emitted: Iterable[Any]) -> list[list[Any]]:
    panes = []
    for each in emitted:
        (window,) = each.windows
        timing = PaneInfoTiming.to_string(each.pane_info.timing).lower().replace("_", " ")
        panes.append([int(window.start), int(window.end), sorted(each.value), timing])
    return sorted(panes)


def with_panes(case: dict[str, Any]) -> dict[str, Any]:
    kind, *lengths = case["window"]
    windows = WINDOWS[kind](*lengths)
    is_discarding = case["panes"] == "discarding"
    mode = beam.AccumulationMode.DISCARDING if is_discarding else beam.AccumulationMode.ACCUMULATING
    windowing = Windowing(windows, trigger_of(case["trigger"]), mode, allowed_lateness=LATENESS_S)
    driver = beam.GeneralTriggerDriver(windowing, StoppedClock())
    driver.is_merging = kind == "session"
    state, watermark = beam.InMemoryUnmergedState(), MIN_TIMESTAMP
    emitted = []
    for event in case["events"]:
        found: list[Any] = []
        if "rows" in event:
            values = [
                WindowedValue(value, at, windows.assign(WindowFn.AssignContext(Timestamp(at), value)))
                for at, value in event["rows"]
            ]
            found += driver.process_elements(state, values, watermark, watermark)
        else:
            watermark = Timestamp(event["watermark"])
            while timers := state.get_and_clear_timers(watermark):
                for window, (name, domain, at, _) in timers:
                    found += driver.process_timer(window, name, domain, at, state, watermark)
        emitted.append(panes_of(found))
    return {**case, "emitted": emitted}


def any_condition(rng: random.Random, *, is_inner: bool = False) -> list[Any]:
    kind = rng.choice(["count"] * 3 + ([] if is_inner else ["any", "all"]))
    if kind == "count":
        return ["count", rng.randint(1, 4)]
    return [kind, *(any_condition(rng, is_inner=True) for _ in range(2))]


def any_when(rng: random.Random, *, sequences: bool) -> list[Any]:
    if sequences and rng.random() < 0.3:
        return ["each", *(any_condition(rng) for _ in range(rng.randint(2, 3)))]
    return any_condition(rng)


def any_events(rng: random.Random) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    watermark = value = 0
    for _ in range(rng.randint(3, 9)):
        if rng.random() < 0.65:
            rows = []
            for _ in range(rng.randint(1, 4)):
                value += 1
                rows.append([rng.randint(0, 40), value])
            events.append({"rows": rows})
        else:
            watermark += rng.randint(1, 15)
            events.append({"watermark": watermark})
    return events


def any_case(rng: random.Random) -> dict[str, Any]:
    window = rng.choice([["fixed", 10], ["sliding", 20, 5], ["session", 7]])
    is_session = window[0] == "session"
    trigger: dict[str, Any] = {
        "kind": rng.choice(["default", "repeatedly", "watermark", "watermark", "watermark"])
    }
    if trigger["kind"] == "repeatedly":
        trigger["condition"] = any_when(rng, sequences=not is_session)
    elif trigger["kind"] == "watermark":
        trigger["early"] = any_when(rng, sequences=not is_session) if rng.random() < 0.7 else None
        trigger["late"] = any_when(rng, sequences=not is_session)
    events = any_events(rng)
    panes = "discarding" if is_session else rng.choice(["accumulating", "discarding"])
    return {"window": window, "trigger": trigger, "panes": panes, "events": events}


def main() -> None:
    rng = random.Random(SEED)
    lines = [json.dumps(with_panes(any_case(rng)), separators=(",", ":")) for _ in range(CASES)]
    print("[\n" + ",\n".join(lines) + "\n]")


if __name__ == "__main__":
    main()
