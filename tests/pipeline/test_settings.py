"""The settings of jobs: which of several values applies."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.errors import HeadraceError
from headrace.pipeline import launch
from headrace.pipeline.launch import Launch
from headrace.pipeline.settings import pipeline_settings, spark_properties


@pytest.fixture(autouse=True)
def own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without the settings of this machine."""
    monkeypatch.chdir(tmp_path)
    for variable in ("HEADRACE_BOOTSTRAP", "HEADRACE_PIPELINE_BOOTSTRAP", "HEADRACE_PIPELINE_MASTER"):
        monkeypatch.delenv(variable, raising=False)


def test_settings_come_from_the_file_the_environment_the_script_and_the_launch_in_this_order(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "headrace.toml").write_text('[pipeline]\nbootstrap = "file:1"\nmaster = "local[7]"\n')
    assert (pipeline_settings().bootstrap, pipeline_settings().master) == ("file:1", "local[7]")
    monkeypatch.setenv("HEADRACE_BOOTSTRAP", "short:1")
    assert (pipeline_settings().bootstrap, pipeline_settings().master) == ("short:1", "local[7]")
    monkeypatch.setenv("HEADRACE_PIPELINE_BOOTSTRAP", "long:1")
    assert pipeline_settings().bootstrap == "long:1"
    assert pipeline_settings(bootstrap="script:1").bootstrap == "script:1"
    with launch.using(Launch(bootstrap="launch:1")):
        assert pipeline_settings(bootstrap="script:1").bootstrap == "launch:1"


def test_only_the_options_that_a_launch_sets_override_the_script() -> None:
    with launch.using(Launch(bootstrap="kafka:9092", data_dir=Path("elsewhere"))):
        settings = pipeline_settings(bootstrap="mine:9092", data_dir=Path("here"), master="local[1]")
    assert (settings.bootstrap, settings.data_dir, settings.master) == (
        "kafka:9092",
        "elsewhere",
        "local[1]",
    )


def test_argument_of_none_is_not_given() -> None:
    assert pipeline_settings(master=None).master == "local[*]"


def test_value_below_the_minimum_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_PIPELINE_ROWS_PER_BATCH_MAX", "0")
    with pytest.raises(HeadraceError, match=r"(?i)rows_per_batch_max"):
        pipeline_settings()


def test_files_that_can_only_be_on_this_machine_have_no_place_at_an_address(tmp_path: Path) -> None:
    assert pipeline_settings(data_dir="here").local_data_dir == tmp_path / "here"
    assert pipeline_settings(data_dir="here").log_dir == tmp_path / "here"
    elsewhere = pipeline_settings(data_dir="s3a://bucket/jobs")
    assert elsewhere.log_dir == tmp_path / "data"
    with pytest.raises(HeadraceError, match="s3a://bucket/jobs") as rejected:
        _ = elsewhere.local_data_dir
    assert "`at`" in rejected.value.hint


def test_options_of_spark_are_read_from_a_file(tmp_path: Path) -> None:
    assert spark_properties(pipeline_settings()) == {}
    file = tmp_path / "spark.conf"
    file.write_text("# a comment\n\nspark.a  1\nspark.b=two words\n spark.c : x=y\n")
    settings = pipeline_settings(spark_properties=file)
    assert spark_properties(settings) == {"spark.a": "1", "spark.b": "two words", "spark.c": "x=y"}
    file.unlink()
    with pytest.raises(HeadraceError, match=r"spark.conf \(spark_properties\) cannot be read"):
        spark_properties(settings)
