"""Settings: frozen dataclasses whose fields carry their own documentation.

The settings of a part are next to the part (`broker/settings.py`). This module only loads their values:
defaults < a table of `headrace.toml` < `HEADRACE_<SECTION>_<FIELD>` in the environment < flags.

It uses no validation library: the import of one would take longer than the rest of the start of a broker.
"""

from __future__ import annotations

import dataclasses
import os
import re
import types
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from headrace.errors import HeadraceError
from headrace.names import did_you_mean, nearest

SETTINGS_FILE = "headrace.toml"

SECTIONS = ("alert", "broker", "cdc", "client", "edge", "gateway", "pipeline", "webhook_out")
"""The tables of the file, and the sections of the variables `HEADRACE_<SECTION>_<FIELD>`."""

VARIABLES: Mapping[str, str] = {
    "HEADRACE_BOOTSTRAP": "Short for `HEADRACE_CLIENT_BOOTSTRAP` and `HEADRACE_PIPELINE_BOOTSTRAP`.",
    "HEADRACE_REGISTRY": "Short for `HEADRACE_CLIENT_REGISTRY` and `HEADRACE_PIPELINE_REGISTRY`.",
    "HEADRACE_CACHE": "Folder of fetched files, such as Spark's connector. Default: `~/.cache/headrace`.",
    "HEADRACE_IVY_SETTINGS": "An ivysettings.xml with the repositories for jars.",
    "HEADRACE_ALLOW_SLOW_CRC": "`1` allows a run without the C implementation of CRC-32C, many times slower.",
}
"""The variables that are not settings of one section."""

MESSAGE_VARIABLES = ("TOPIC", "PARTITION", "OFFSET", "KEY", "TIMESTAMP_MS", "DELIVERY_COUNT", "GROUP")
"""The variables that `headrace work` sets for its commands, which may call `headrace`."""

_FOREIGN_PREFIXES = ("HEADRACE_HEADER_", "HEADRACE_TEST_")
# Kubernetes sets the addresses of a service named headrace in every pod, such as HEADRACE_PORT_9092_TCP.
_KUBERNETES = re.compile(r"HEADRACE_(\w+_)?(SERVICE_HOST|SERVICE_PORT\w*|PORT|PORT_\d+_\w+)")


class BadSetting(HeadraceError):
    """A setting that is unknown, of the wrong type or out of its range."""


def setting(default: Any, *, doc: str, minimum: int | None = None) -> Any:
    """Declare one field of a settings class: its default, its meaning, and its valid values."""
    return dataclasses.field(default=default, metadata={"doc": doc, "minimum": minimum})


SettingsT = TypeVar("SettingsT")


def load(
    kind: type[SettingsT],
    *,
    section: str,
    flags: Mapping[str, Any] | None = None,
    file: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> SettingsT:
    """The settings of one part, from the file, the environment and the flags (None is a flag that is not set)."""
    values: dict[str, Any] = {}
    values.update(_from_file(kind, section, file))
    values.update(_from_environment(kind, section, os.environ if environ is None else environ))
    values.update({name: value for name, value in (flags or {}).items() if value is not None})
    return make(kind, values)


def make(kind: type[SettingsT], values: Mapping[str, Any]) -> SettingsT:
    """The settings with these values, after a check against the declarations of the fields."""
    fields = {field.name: field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    hints = typing.get_type_hints(kind)
    checked = {}
    for name, value in values.items():
        if name not in fields:
            known = ", ".join(sorted(fields))
            hint = did_you_mean(name, fields) or f"choose from {known}"
            raise BadSetting(f"setting {name!r} is unknown", hint=hint)
        checked[name] = _check(name, value, hints[name], fields[name].metadata)
    return kind(**checked)


def _from_file(kind: type[Any], section: str, file: Path | None) -> dict[str, Any]:
    path = file or Path(SETTINGS_FILE)
    if not path.exists():
        if file is not None:
            raise BadSetting(f"settings file {file} is missing", hint="check the path of --config")
        return {}
    import tomllib

    try:
        tables = tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadSetting(
            f"{path} is not valid TOML: {error}", hint="correct the line in the message"
        ) from error
    _check_tables(tables, section, path)
    return {name.replace("-", "_"): value for name, value in tables.get(section, {}).items()}


def _check_tables(tables: Mapping[str, Any], section: str, path: Path) -> None:
    known = {section, *SECTIONS}
    for name, table in tables.items():
        if not isinstance(table, Mapping):
            raise BadSetting(
                f"{path}: {name} is not in a table", hint=f"write it below one of {_tables(known)}"
            )
        if name not in known:
            near = nearest(name, known)
            hint = f"did you mean [{near}]?" if near else f"choose from {_tables(known)}"
            raise BadSetting(f"{path}: table [{name}] is unknown", hint=hint)


def _tables(names: Iterable[str]) -> str:
    return ", ".join(f"[{name}]" for name in sorted(names))


def _from_environment(kind: type[Any], section: str, environ: Mapping[str, str]) -> dict[str, Any]:
    prefix = f"HEADRACE_{section.upper()}_"
    names = {f"{prefix}{field.name.upper()}": field.name for field in dataclasses.fields(kind)}
    for variable in environ:
        if variable.startswith("HEADRACE_") and variable not in names:
            _check_variable(variable, section, names, environ)
    return {name: environ[variable] for variable, name in names.items() if variable in environ}


def _check_variable(variable: str, section: str, names: Iterable[str], environ: Mapping[str, str]) -> None:
    """Raise BadSetting if no part of Headrace reads the variable."""
    others = tuple(f"HEADRACE_{each.upper()}_" for each in SECTIONS if each != section)
    plain = {*VARIABLES, *(f"HEADRACE_{each}" for each in MESSAGE_VARIABLES)}
    if variable in plain or variable.startswith((*others, *_FOREIGN_PREFIXES)):
        return
    if "KUBERNETES_SERVICE_HOST" in environ and _KUBERNETES.fullmatch(variable):
        return
    near = _nearest_variable(variable.removeprefix("HEADRACE_"), section, names)
    hint = f"did you mean {near}?" if near else "unset it; the reference of settings lists the variables"
    raise BadSetting(f"{variable} in the environment is not a setting", hint=hint)


def _nearest_variable(rest: str, section: str, names: Iterable[str]) -> str | None:
    """The most similar variable. The comparison ignores the common prefix, and also tries without the section."""
    known = {each.removeprefix("HEADRACE_"): each for each in (*names, *VARIABLES)}
    known |= {each.removeprefix(f"HEADRACE_{section.upper()}_"): each for each in names}
    if near := nearest(rest, known):
        return known[near]
    # The names of the other sections are known here, but not their fields.
    first, _, field = rest.partition("_")
    other = nearest(first.lower(), SECTIONS)
    return f"HEADRACE_{other.upper()}_{field}" if other and field else None


def _check(name: str, value: Any, hint: Any, metadata: Mapping[str, Any]) -> Any:
    wanted = _plain_type(hint)
    try:
        converted = _convert(value, wanted)
    except ValueError as error:
        raise BadSetting(
            f"{name} = {value!r} is not {_describe(wanted)}", hint=str(metadata.get("doc", ""))
        ) from error
    choices = choices_of(hint)
    if choices and converted not in choices:
        raise BadSetting(f"{name} = {value!r} is invalid", hint=f"choose one of {', '.join(choices)}")
    minimum = metadata.get("minimum")
    if minimum is not None and converted is not None and converted < minimum:
        raise BadSetting(f"{name} = {value!r} is too small", hint=f"it must be at least {minimum}")
    return converted


def choices_of(hint: Any) -> tuple[str, ...]:
    """The values of a `Literal`; empty for other types."""
    return typing.get_args(hint) if typing.get_origin(hint) is typing.Literal else ()


def _plain_type(hint: Any) -> type[Any]:
    """`int | None` -> int, because None is only a default; a `Literal` -> str."""
    if choices_of(hint):
        return str
    if isinstance(hint, types.UnionType):
        hint = next(member for member in typing.get_args(hint) if member is not type(None))
    return typing.cast("type[Any]", hint)


def _convert(value: Any, wanted: type[Any]) -> Any:
    if wanted is bool:
        return _convert_bool(value)
    if wanted is int and isinstance(value, (bool, float)):
        raise ValueError(value)
    if isinstance(value, wanted):
        return value
    if wanted in (int, float, str, Path) and isinstance(value, (str, int, Path)):
        return wanted(value)
    raise ValueError(value)


def _convert_bool(value: Any) -> bool:
    words = {
        "true": True,
        "1": True,
        "yes": True,
        "on": True,
        "false": False,
        "0": False,
        "no": False,
        "off": False,
    }
    word = str(value).lower()
    if word not in words:
        raise ValueError(value)
    return words[word]


def _describe(wanted: type[Any]) -> str:
    names = {int: "a whole number", float: "a number", bool: "true or false", Path: "a path"}
    return names.get(wanted, f"a {wanted.__name__}")
