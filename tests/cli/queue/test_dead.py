"""`headrace queue dead` on a real broker."""

from __future__ import annotations

import json

from tests.cli.conftest import Headrace
from tests.cli.queue.conftest import wait_for_letter
from tests.cli.typed_json import json_problems


def test_dead_letters_are_listed_shown_redriven_and_purged(headrace: Headrace, half_done: str) -> None:
    wait_for_letter(headrace, half_done)
    (letter,) = json.loads(headrace("queue", "dead", "list", half_done, "--format", "json").out)
    assert letter["original"] == {"topic": half_done, "partition": 0, "offset": 1}
    assert (letter["value"], letter["reason"], letter["delivery_count"]) == ("bad", "no such mailbox", 1)
    shown = headrace("queue", "dead", "show", half_done, f"{letter['partition']}:{letter['offset']}").out
    assert "no such mailbox" in shown
    assert "header colour: red" in shown
    assert shown.endswith("\nbad\n")

    assert "0 letters, 1 left" in headrace("queue", "dead", "redrive", half_done, "--match", "nothing").out
    assert "1 letters would be" in headrace("queue", "dead", "redrive", half_done, "--dry-run").out
    assert "redrove 1 letters" in headrace("queue", "dead", "redrive", half_done, "--match", "mailbox").out
    assert "no dead letters" in headrace("queue", "dead", "list", half_done).out
    assert headrace("consume", half_done, "--partition", "0", "--last", "1").out == "bad\n"
    assert "--yes" in headrace("queue", "dead", "purge", half_done, code=1).err
    assert "records deleted" in headrace("queue", "dead", "purge", half_done, "--yes").out


def test_letters_are_discarded_after_a_confirmation(headrace: Headrace, half_done: str) -> None:
    wait_for_letter(headrace, half_done)
    assert "1 letters would be" in headrace("queue", "dead", "discard", half_done, code=1).err
    kept = headrace(
        "queue", "dead", "discard", half_done, "--match", "nothing", "--yes", "--format", "json"
    ).out
    assert json_problems("queue dead discard", kept) == []
    assert json.loads(kept) == {"group": half_done, "discarded": 0, "left": 1}
    assert "discarded 1 letters\n" in headrace("queue", "dead", "discard", half_done, "--yes").out
    assert "no dead letters" in headrace("queue", "dead", "list", half_done).out


def test_missing_letter_is_an_error(headrace: Headrace, half_done: str) -> None:
    wait_for_letter(headrace, half_done)
    assert "no letter 0:99" in headrace("queue", "dead", "show", half_done, "0:99", code=1).err
    assert "PARTITION:OFFSET" in headrace("queue", "dead", "show", half_done, "x", code=1).err


def test_group_without_letters_has_an_empty_list(headrace: Headrace, name: str) -> None:
    assert headrace("queue", "dead", "list", name).out == f"no dead letters of {name} in dlq.{name}\n"
    assert json.loads(headrace("queue", "dead", "list", name, "--format", "json").out) == []


def test_json_of_dead_letters_is_as_declared(headrace: Headrace, half_done: str) -> None:
    wait_for_letter(headrace, half_done)

    def shown(*command: str) -> str:
        return headrace("queue", "dead", *command, "--format", "json").out

    letters = shown("list", half_done)
    assert json_problems("queue dead list", letters) == []
    letter = "{partition}:{offset}".format(**json.loads(letters)[0])
    assert json_problems("queue dead show", shown("show", half_done, letter)) == []
    for option in ("--dry-run", "--match=mailbox"):
        assert json_problems("queue dead redrive", shown("redrive", half_done, option)) == []
    assert json_problems("queue dead purge", shown("purge", half_done, "--yes")) == []
