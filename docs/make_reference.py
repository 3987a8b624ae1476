"""Writes the reference pages from the code: settings, topic configs, commands, protocol, metrics.

python docs/make_reference.py            writes docs/reference/*.md
python docs/make_reference.py --check    only says which pages are not current (exit code 1)

What a page says about a setting or a command is written where that is defined; here is only how it is laid out.
"""

from __future__ import annotations

import dataclasses
import importlib
import sys
import typing
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import typer

from headrace import Broker
from headrace.broker import handlers
from headrace.broker.configs.group_configs import GROUP_CONFIGS
from headrace.broker.configs.resource_configs import ResourceConfig
from headrace.broker.configs.topic_configs import INT64_MAX, TOPIC_CONFIGS, TopicConfig
from headrace.broker.dispatch import HANDLERS
from headrace.broker.settings import BrokerSettings
from headrace.cli.main import app
from headrace.cli.output import RESULTS
from headrace.kafka.settings import ClientSettings
from headrace.pipeline.report.registry import JobStatus
from headrace.pipeline.settings import PipelineSettings
from headrace.settings import SETTINGS_FILE, VARIABLES

REFERENCE = Path(__file__).parent / "reference"
# Where the help texts are broken; the narrowest terminal that they are laid out for.
HELP_COLUMNS = 80
GENERATED = "<!-- Made by docs/make_reference.py; `make docs-reference` makes it anew. -->"

SETTINGS_PAGE = """# Settings

{generated}

A value comes from the first of these that has one: the command's own option, the environment, `{file}`
in the working folder (or the file given with `headrace broker --config`), the default. An unknown table, name or
variable and an impossible value are errors that name what was meant or what is possible. Variables that Kubernetes sets
for a service named `headrace` are not settings, and are ignored there.

From Python every broker setting is an argument: `headrace.Broker(durability="os")`. The file and the environment are
not read there.

## The broker

The `[broker]` table of `{file}`, `HEADRACE_BROKER_<NAME>` in the environment, `--set name=value` on the command line.
`data_dir`, `durability`, `metrics_port` and `insecure`, and `host` and `port` together as `--listen`, have options of
their own.

{broker}

## The commands, and queues in Python

The `[client]` table of `{file}`, `HEADRACE_CLIENT_<NAME>` in the environment. `HEADRACE_BOOTSTRAP` is short for
`HEADRACE_CLIENT_BOOTSTRAP`, and `--bootstrap` goes before both. `headrace.queue` finds its broker the same way, unless
it is given `bootstrap=`.

{client}

## Jobs

The `[pipeline]` table of `{file}`, `HEADRACE_PIPELINE_<NAME>` in the environment, arguments in a job's script, and
before all of them the options of `headrace job run`. `HEADRACE_BOOTSTRAP` is heard for `bootstrap` too. Everything else
of Spark is given as `session("name", conf={{"spark.…": "…"}})`.

{pipeline}

## Other variables

| name | meaning |
|---|---|
{variables}

`headrace work` sets `HEADRACE_TOPIC`, `HEADRACE_KEY` and others for its commands, and the tests of Headrace read
`HEADRACE_TEST_*`.

## Topics

Set with `headrace topic create NAME --config name=value` or `headrace topic alter`, or with any Kafka admin client. The
names are Apache Kafka's. The commands take durations and sizes with a unit: `retention.ms=1h`, `segment.bytes=64MB`
(64,000,000) or `64MiB` (67,108,864).

{topics}

## Groups

Set with `headrace queue alter NAME --config name=value`, `kafka-configs --entity-type groups --entity-name NAME`,
or with any Kafka admin client; a group may have them before it has members. `share.*`, `errors.*` and
`headrace.share.*` are for [queues](../explanation/queues.md).

{groups}
"""

PROTOCOL_PAGE = """# Protocol

{generated}

The broker speaks the Kafka wire protocol. These are the {count} APIs that it answers, and in which versions; a client
asks for the same list with ApiVersions and picks the newest that both know.

| key | API | versions | |
|---|---|---|---|
{rows}

Produce is advertised from version 0 because librdkafka turns compression off otherwise.

An API that is not in the table is not served: SASL and ACLs among them.
"""

METRICS_PAGE = """# Metrics

{generated}

Served in Prometheus's text format at `/metrics` when the broker has a `metrics_port`. `headrace_requests_total` has the
label `api`; the names that begin with `headrace_log_` have `topic` and `partition`, those with `headrace_group_` have
`group` and `protocol` (`classic` or `consumer`), and those with `headrace_share_` have `group`, but for the sessions.

| name | type | meaning |
|---|---|---|
{rows}
"""

COMMANDS_TEXT = """`--bootstrap-server` is the same as `--bootstrap` everywhere. Times are ISO 8601, milliseconds
since 1970, or a duration such as `1h` for an hour ago. Exit codes: 0 done, 1 failed, 2 wrong usage, 130 stopped with
Ctrl-C, 143 stopped with SIGTERM. `headrace --install-completion` makes the shell complete commands, options, topics and
groups.

Results are on standard output, everything else on standard error. A field of the JSON below is always there, unless the
meaning says "instead of"."""

# Where results are declared that a command imports only when it runs.
RESULT_MODULES = ("job.run", "job.screen", "job.state", "top.look")
# Its fields are listed where it is the result itself.
RESULT_KINDS_ONCE = (JobStatus,)

assert handlers.__all__, "importing the handlers registers them"


def settings_page() -> str:
    return SETTINGS_PAGE.format(
        generated=GENERATED,
        file=SETTINGS_FILE,
        broker="\n".join(_settings_table(BrokerSettings)),
        client="\n".join(_settings_table(ClientSettings)),
        pipeline="\n".join(_settings_table(PipelineSettings)),
        variables="\n".join(f"| `{name}` | {_cell(meaning)} |" for name, meaning in VARIABLES.items()),
        topics="\n".join(_configs_table(TOPIC_CONFIGS.values())),
        groups="\n".join(_configs_table(GROUP_CONFIGS.values())),
    )


def _settings_table(kind: type[Any]) -> Iterator[str]:
    hints = typing.get_type_hints(kind)
    yield "| name | type | default | meaning |"
    yield "|---|---|---|---|"
    for field in dataclasses.fields(kind):
        choices, minimum = field.metadata["choices"], field.metadata["minimum"]
        type_words = _type_words(hints[field.name])
        if choices:
            type_words = " or ".join(f"`{choice}`" for choice in choices)
        if minimum:
            type_words += f", at least {minimum:,}"
        yield f"| `{field.name}` | {type_words} | {_default(field.default)} | {_cell(field.metadata['doc'])} |"


def _type_words(hint: Any) -> str:
    members = [each for each in typing.get_args(hint) if each is not type(None)] or [hint]
    words = {int: "whole number", float: "number", bool: "true or false", str: "text", Path: "path"}
    return " or ".join(words[each] for each in members)


def _default(value: Any) -> str:
    if value is None:
        return "none"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _configs_table(configs: Iterable[TopicConfig | ResourceConfig]) -> Iterator[str]:
    yield "| name | type | default | meaning |"
    yield "|---|---|---|---|"
    for config in configs:
        default = "no bound" if config.default == str(INT64_MAX) else f"`{config.default}`"
        shown = "empty" if config.default == "" else default
        yield f"| `{config.name}` | {config.type.name.lower()} | {shown} | {_cell(config.doc)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def cli_page() -> str:
    helps = list(_helps(typer.main.get_command(app), "headrace", None))
    for module in RESULT_MODULES:
        importlib.import_module(f"headrace.cli.{module}")
    parts = ["# Commands", "", GENERATED, "", COMMANDS_TEXT, ""]
    for path, text in helps:
        parts += [f"## {path}", "", "```text", text, "```", ""]
        if found := RESULTS.get(path.removeprefix("headrace ")):
            option = {"headrace produce": "--report json", "headrace broker": "--check --format json"}.get(
                path, "--format json"
            )
            parts += [f"`{option}` prints {found.shape.value}:", "", *_fields_table(found.kind), ""]
    return "\n".join(parts)


def _fields_table(kind: type[Any], prefix: str = "") -> Iterator[str]:
    """Each field with its type and meaning; those of what is within a field below it."""
    if not prefix:
        yield "| field | type | meaning |"
        yield "|---|---|---|"
    for field in msgspec.structs.fields(kind):
        hint, meaning = field.type, ""
        if typing.get_origin(hint) is typing.Annotated:
            hint, meaning = typing.get_args(hint)
        within = _struct_in(hint)
        name = f"{prefix}{field.name}"
        yield f"| `{name}` | {_cell(_json_type(hint))} | {_cell(meaning)} |"
        if within is not None and within not in RESULT_KINDS_ONCE:
            yield from _fields_table(within, f"{name}{_within_mark(hint)}.")


def _struct_in(hint: Any) -> Any:
    """The struct in `list[X]`, `dict[str, X]`, `X | None` or `X`."""
    if isinstance(hint, msgspec.StructMeta):
        return hint
    within = (_struct_in(each) for each in typing.get_args(hint))
    return next((each for each in within if each is not None), None)


def _within_mark(hint: Any) -> str:
    return {list: "[]", tuple: "[]", dict: "{}"}.get(typing.get_origin(hint), "")


def _json_type(hint: Any) -> str:
    origin, members = typing.get_origin(hint), typing.get_args(hint)
    if origin in (list, tuple):
        return f"list of {_json_type(members[0])}"
    if origin is dict:
        return f"object of {_json_type(members[1])}"
    if members:
        return " or ".join(_json_type(each) for each in members)
    if isinstance(hint, type) and issubclass(hint, str):
        return "text"
    words = {int: "whole number", float: "number", bool: "true or false", type(None): "null", Any: "any"}
    return words.get(hint, "object")


def _helps(command: Any, path: str, parent: Any) -> Iterator[tuple[str, str]]:
    """Of a command and of all below it, the name in full and the help text."""
    name = path.rpartition(" ")[2]
    context = command.context_class(
        command, info_name=name, parent=parent, terminal_width=HELP_COLUMNS, **command.context_settings
    )
    yield path, "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
    if hasattr(command, "list_commands"):
        for below in command.list_commands(context):
            yield from _helps(command.get_command(context, below), f"{path} {below}", context)


def protocol_page() -> str:
    rows = []
    for handler in sorted(HANDLERS.values(), key=lambda each: each.api_key):
        name = "".join(word.capitalize() for word in handler.api_key.name.split("_"))
        note = "" if handler.advertised == handler.versions else f"{_range(handler.advertised)} advertised"
        rows.append(f"| {int(handler.api_key)} | {name} | {_range(handler.versions)} | {note} |")
    return PROTOCOL_PAGE.format(generated=GENERATED, count=len(rows), rows="\n".join(rows))


def _range(versions: tuple[int, int]) -> str:
    return f"{versions[0]}-{versions[1]}" if versions[0] != versions[1] else str(versions[0])


def metrics_page() -> str:
    with Broker(metrics_port=0, durability="os") as broker:
        address = f"http://127.0.0.1:{broker.metrics_port}/metrics"
        with urllib.request.urlopen(address, timeout=10) as answer:
            lines = answer.read().decode().splitlines()
    docs = dict(_comments(lines, "HELP"))
    rows = [f"| `{name}` | {kind} | {_cell(docs[name])} |" for name, kind in _comments(lines, "TYPE")]
    return METRICS_PAGE.format(generated=GENERATED, rows="\n".join(rows))


def _comments(lines: list[str], word: str) -> Iterator[tuple[str, str]]:
    """`# HELP name text` -> (name, text)"""
    prefix = f"# {word} "
    for line in lines:
        if line.startswith(prefix):
            name, _, text = line.removeprefix(prefix).partition(" ")
            yield name, text


PAGES: dict[str, Callable[[], str]] = {
    "settings.md": settings_page,
    "cli.md": cli_page,
    "protocol.md": protocol_page,
    "metrics.md": metrics_page,
}


def main() -> int:
    is_check = "--check" in sys.argv[1:]
    outdated = []
    for name, make in PAGES.items():
        path, text = REFERENCE / name, make()
        if path.exists() and path.read_text() == text:
            continue
        outdated.append(name)
        if not is_check:
            path.write_text(text)
    if outdated:
        print(f"{'not current' if is_check else 'written'}: {', '.join(outdated)}")
    return 1 if is_check and outdated else 0


if __name__ == "__main__":
    sys.exit(main())
