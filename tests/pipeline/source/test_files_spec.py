"""The description of files, in the options of a source."""

from __future__ import annotations

from headrace.pipeline.source.files_spec import FileFormat, FilesSpec


def spec(format: FileFormat, required: tuple[str, ...] = ()) -> FilesSpec:
    return FilesSpec(
        id="one",
        path="incoming/",
        format=format,
        schema="{}",
        required=required,
        bounded=False,
        dead_letters=None,
        options={"sep": ";"},
    )


def test_description_is_read_back_from_its_option() -> None:
    assert FilesSpec.from_option(spec("csv").to_option()) == spec("csv")


def test_parquet_has_bad_rows_only_if_it_lacks_required_columns() -> None:
    assert spec("csv").can_have_bad
    assert not spec("parquet").can_have_bad
    assert spec("parquet", ("user",)).can_have_bad


def test_metric_and_name_identify_the_source() -> None:
    assert spec("json").bad_metric.endswith("one")
    assert spec("json").reads == "json files incoming/"
