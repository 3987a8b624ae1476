"""Each classic example ends by itself and prints its result."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLASSICS = Path(__file__).parents[2] / "examples" / "classics"
SHARED = {"__init__", "stage"}

SCRIPTS = sorted({path.stem for path in CLASSICS.glob("*.py")} - SHARED)
PAGES = CLASSICS.parents[1] / "docs" / "examples"
OUTPUT = re.compile(r"^```text\n(.*?)^```", re.DOTALL | re.MULTILINE)


def test_every_classic_has_its_page() -> None:
    assert {path.stem.replace("-", "_") for path in PAGES.glob("*.md")} - {"index"} == set(SCRIPTS)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", SCRIPTS)
def test_classic_prints_what_its_page_shows(
    name: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(type(spark), "stop", lambda _: None)
    runpy.run_module(f"examples.classics.{name}", run_name="__main__")
    page = (PAGES / f"{name.replace('_', '-')}.md").read_text()
    assert OUTPUT.findall(page) == [capsys.readouterr().out]
