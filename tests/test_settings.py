"""Where settings come from, and what is rejected."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

import pytest

from headrace.broker.settings import BrokerSettings
from headrace.kafka.settings import ClientSettings
from headrace.settings import MESSAGE_VARIABLES, BadSetting, load, make, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    count: int = setting(1, minimum=1, doc="How many.")
    ratio: float = setting(0.5, doc="Which part.")
    name: Literal["a", "b"] = setting("a", doc="Which one.")
    flag: bool = setting(False, doc="Whether.")
    folder: Path = setting(Path("x"), doc="Where.")
    port: int | None = setting(None, minimum=0, doc="On which.")


def loaded(tmp_path: Path, *, file: str = "", environ: dict[str, str] | None = None, **flags: Any) -> Sample:
    path = tmp_path / "headrace.toml"
    path.write_text(file)
    return load(Sample, section="sample", flags=flags, file=path, environ=environ or {})


def test_later_sources_win_over_earlier_ones(tmp_path: Path) -> None:
    file = "[sample]\ncount = 2\n"
    environ = {"HEADRACE_SAMPLE_COUNT": "3"}

    assert loaded(tmp_path).count == 1
    assert loaded(tmp_path, file=file).count == 2
    assert loaded(tmp_path, file=file, environ=environ).count == 3
    assert loaded(tmp_path, file=file, environ=environ, count=4).count == 4
    assert loaded(tmp_path, file=file, environ=environ, count=None).count == 3


def test_tables_and_variables_of_other_parts_are_ignored(tmp_path: Path) -> None:
    file = "[client]\ncount = 2\n"
    environ = {
        "HEADRACE_CLIENT_COUNT": "3",
        "HEADRACE_BOOTSTRAP": "a:1",
        "HEADRACE_TEST_SEED": "7",
        "HOME": "/",
    }

    assert loaded(tmp_path, file=file, environ=environ) == Sample()


def test_variables_that_work_sets_for_its_commands_are_ignored(tmp_path: Path) -> None:
    message = {f"HEADRACE_{name}": "x" for name in MESSAGE_VARIABLES}

    assert loaded(tmp_path, environ={**message, "HEADRACE_HEADER_TRACE_ID": "1"}) == Sample()


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("HEADRACE_SAMPLE_CUONT", "did you mean HEADRACE_SAMPLE_COUNT?"),
        ("HEADRACE_SAMPEL_COUNT", "did you mean HEADRACE_SAMPLE_COUNT?"),
        ("HEADRACE_COUNT", "did you mean HEADRACE_SAMPLE_COUNT?"),
        ("HEADRACE_BROKR_PORT", "did you mean HEADRACE_BROKER_PORT?"),
        ("HEADRACE_BOOTSTRAPS", "did you mean HEADRACE_BOOTSTRAP?"),
        ("HEADRACE_XYZZY", "unset it; the reference of settings lists the variables"),
    ],
)
def test_unknown_variable_is_rejected_with_the_nearest_name(
    tmp_path: Path, variable: str, meant: str
) -> None:
    with pytest.raises(BadSetting, match=f"{variable} in the environment is not a setting") as caught:
        loaded(tmp_path, environ={variable: "1"})

    assert caught.value.hint == meant


def test_addresses_of_a_kubernetes_service_named_headrace_are_no_settings(tmp_path: Path) -> None:
    service = {
        "HEADRACE_SERVICE_HOST": "10.0.0.1",
        "HEADRACE_SERVICE_PORT": "9092",
        "HEADRACE_PORT": "tcp://10.0.0.1:9092",
        "HEADRACE_PORT_9092_TCP_ADDR": "10.0.0.1",
    }

    assert loaded(tmp_path, environ={**service, "KUBERNETES_SERVICE_HOST": "10.0.0.2"}) == Sample()
    with pytest.raises(BadSetting, match="HEADRACE_"):
        loaded(tmp_path, environ=service)


@pytest.mark.parametrize(
    ("file", "said", "meant"),
    [
        ("[brokr]\n", "table \\[brokr\\] is unknown", "did you mean [broker]?"),
        (
            "[web]\n",
            "table \\[web\\] is unknown",
            "choose from [alert], [broker], [cdc], [client], [edge], [gateway], [pipeline], [sample]",
        ),
        ("count = 2\n", "count is not in a table", "below one of [alert], [broker]"),
        ("[[sample]]\n", "sample is not in a table", "below one of [alert], [broker]"),
        ("[sample]\ncuont = 2\n", "setting 'cuont' is unknown", "did you mean count?"),
    ],
)
def test_unknown_table_or_key_is_rejected_with_the_nearest_name(
    tmp_path: Path, file: str, said: str, meant: str
) -> None:
    with pytest.raises(BadSetting, match=said) as caught:
        loaded(tmp_path, file=file)

    assert meant in caught.value.hint


def test_text_becomes_the_type_of_the_field(tmp_path: Path) -> None:
    texts = {"COUNT": "7", "RATIO": "0.25", "NAME": "b", "FLAG": "yes", "FOLDER": "/data", "PORT": "0"}
    environ = {f"HEADRACE_SAMPLE_{name}": text for name, text in texts.items()}

    wanted = Sample(count=7, ratio=0.25, name="b", flag=True, folder=Path("/data"), port=0)
    assert loaded(tmp_path, environ=environ) == wanted


def test_dashes_in_the_file_are_underscores(tmp_path: Path) -> None:
    path = tmp_path / "headrace.toml"
    path.write_text("[broker]\nnode-id = 9\n")

    assert load(BrokerSettings, section="broker", file=path, environ={}).node_id == 9


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("count", "many", "count = 'many' is not a whole number"),
        ("count", 1.5, "is not a whole number"),
        ("count", True, "is not a whole number"),
        ("count", 0, "is too small"),
        ("ratio", "half", "is not a number"),
        ("name", "c", "is invalid"),
        ("flag", "maybe", "is not true or false"),
        ("port", -1, "is too small"),
        ("folder", 1.5, "is not a path"),
        ("nope", 1, "setting 'nope' is unknown"),
    ],
)
def test_bad_value_is_rejected_by_name(name: str, value: Any, said: str) -> None:
    with pytest.raises(BadSetting, match=said):
        make(Sample, {name: value})


def test_unknown_setting_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(BadSetting) as caught:
        make(Sample, {"nope": 1})

    assert "count, flag, folder, name, port, ratio" in caught.value.hint


def test_file_that_is_missing_or_no_toml_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match=r"settings file .* is missing"):
        load(Sample, section="sample", file=tmp_path / "missing.toml", environ={})
    with pytest.raises(BadSetting, match="is not valid TOML"):
        loaded(tmp_path, file="[sample\n")


def test_file_in_the_working_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "headrace.toml").write_text("[sample]\ncount = 5\n")
    monkeypatch.chdir(tmp_path)

    assert load(Sample, section="sample", environ={}).count == 5


@pytest.mark.parametrize("kind", [BrokerSettings, ClientSettings])
def test_every_setting_is_documented_and_its_default_allowed(kind: type[Any]) -> None:
    defaults = {field.name: field.default for field in fields(kind)}

    assert all(field.metadata["doc"].endswith(".") for field in fields(kind))
    assert make(kind, {name: value for name, value in defaults.items() if value is not None}) == kind()
