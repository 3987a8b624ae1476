"""Long work lets other requests run in between, and has the same results as without pauses."""

from __future__ import annotations

import asyncio
import time

from headrace.broker.turns import TURN_S, Steps, Turns, in_turns, run_to_end


def counting(seen: list[int], count: int) -> Steps[str]:
    for number in range(count):
        seen.append(number)
        yield
    return "done"


def test_steps_run_to_the_end_return_their_result() -> None:
    seen: list[int] = []
    assert run_to_end(counting(seen, 3)) == "done"
    assert seen == [0, 1, 2]


def test_other_requests_run_between_the_items_of_long_work() -> None:
    async def main() -> tuple[list[int], list[int]]:
        seen: list[int] = []
        turns_of_others: list[int] = []

        async def other() -> None:
            while True:
                turns_of_others.append(len(seen))
                await asyncio.sleep(0)

        def work(number: int) -> int:
            time.sleep(TURN_S)
            seen.append(number)
            return number

        beside = asyncio.create_task(other())
        results = await in_turns(range(4), work)
        beside.cancel()
        return results, turns_of_others

    results, turns_of_others = asyncio.run(main())
    assert results == [0, 1, 2, 3]
    assert turns_of_others == [1, 2, 3, 4]


def test_steps_in_turns_return_their_result() -> None:
    async def main() -> tuple[str, list[int]]:
        seen: list[int] = []
        return await Turns().run(counting(seen, 5)), seen

    assert asyncio.run(main()) == ("done", [0, 1, 2, 3, 4])
