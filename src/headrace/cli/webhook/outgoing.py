"""`headrace webhook out`: records of a topic, or messages of a queue, as signed requests to other systems."""

from __future__ import annotations

import importlib.util
from typing import Annotated

import typer
from msgspec.structs import replace

from headrace.cli.arguments import parse_pairs
from headrace.cli.command import Bootstrap, command_app, connect
from headrace.cli.output import Format, note, show, show_rows
from headrace.cli.webhook import outgoing_dead
from headrace.cli.webhook.outgoing_results import (
    AddedTarget,
    RemovedTarget,
    RotatedTarget,
    SampleAnswer,
    TargetPause,
    listed_target,
    shown_attempt,
    shown_target,
)
from headrace.cli.webhook.outgoing_targets import (
    Name,
    WebhookDataDir,
    catalog_of,
    delete_group,
    folder_of,
    name_of_source,
    settings_of,
)
from headrace.cli.webhook.secret_input import SecretFile, SecretStdin, read_secret
from headrace.clock import SystemClock
from headrace.errors import HeadraceError
from headrace.redaction import redacted

ATTEMPTS = 20
"""A screen; --count shows more."""

app = command_app(no_args_is_help=True)
app.add_typer(outgoing_dead.app, name="dead")


@app.callback()
def webhook_out() -> None:
    """Webhooks out: send records of topics and messages of queues to other systems."""
    if importlib.util.find_spec("aiohttp") is None:
        raise HeadraceError("aiohttp is not installed", hint='pip install "headrace[http]" for webhooks')


@app.command()
def add(
    to: Annotated[str, typer.Option("--to", metavar="URL", help="Where the requests go: https://…")],
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="The webhook's name. Default: that of its topic or queue."),
    ] = None,
    topic: Annotated[str | None, typer.Option("--topic", metavar="TOPIC", help="Topic to send.")] = None,
    queue: Annotated[
        str | None,
        typer.Option(
            "--queue", metavar="TOPIC", help="Instead: topic whose records are messages of a queue."
        ),
    ] = None,
    filter: Annotated[
        str, typer.Option("--filter", metavar="CONDITION", help="In SQL on the fields of the JSON value.")
    ] = "",
    secret_stdin: SecretStdin = False,
    secret_file: SecretFile = None,
    ordered_by_key: Annotated[
        bool,
        typer.Option("--ordered-by-key", help="A record waits until the last one of its key is delivered."),
    ] = False,
    parallel: Annotated[
        int | None, typer.Option("--parallel", metavar="N", help="Requests at a time. Default: 16.")
    ] = None,
    timeout: Annotated[
        str, typer.Option("--timeout", metavar="DURATION", help="For a request and its answer.")
    ] = "10s",
    header: Annotated[
        list[str] | None,
        typer.Option("--header", metavar="NAME=VALUE", help="Header of each request; repeatable."),
    ] = None,
    envelope: Annotated[
        str, typer.Option("--envelope", metavar="FORM", help="none: the value as it is; or cloudevents.")
    ] = "none",
    start: Annotated[
        str, typer.Option("--from", metavar="START", help="now, or earliest for what is in the topic.")
    ] = "now",
    allow_inside: Annotated[
        bool,
        typer.Option(
            "--allow-inside", help="Allow addresses of this machine and of private networks, and http://."
        ),
    ] = False,
    format: Format = "text",
    bootstrap: Bootstrap = None,
    data_dir: WebhookDataDir = None,
) -> None:
    """Add a webhook. `headrace webhook out run` sends what is written to the topic from now on.

    Without --secret-stdin or --secret-file a secret is generated and printed once.

    \b
    headrace webhook out add --topic orders --to https://shop.example/hook --filter 'amount > 100'
    headrace webhook out add ledger --topic payments --to https://bank.example/in --ordered-by-key --secret-stdin
    """
    from headrace.durations import parse_duration_ms
    from headrace.webhooks.catalog import check_name
    from headrace.webhooks.outgoing.origin import commit_start
    from headrace.webhooks.outgoing.target import PARALLEL, Target
    from headrace.webhooks.outgoing.urls import parse_target_url
    from headrace.webhooks.secrets import Secret, generate_secret

    if start not in ("now", "earliest"):
        raise typer.BadParameter("choose now or earliest", param_hint="--from")
    if envelope not in ("none", "cloudevents"):
        raise typer.BadParameter("choose none or cloudevents", param_hint="--envelope")
    if name is None:
        name = name_of_source(topic, queue)
    check_name(name)
    given = read_secret(stdin=secret_stdin, file=secret_file)
    secret = given or generate_secret()
    target = Target(
        name=name,
        topic=topic or "",
        queue=queue or "",
        url=to,
        filter=filter,
        secrets=(Secret(text=secret),),
        envelope=envelope,  # type: ignore[arg-type]  # it was compared above
        ordered_by_key=ordered_by_key,
        parallel=PARALLEL if parallel is None else parallel,
        timeout_ms=parse_duration_ms(timeout),
        headers=parse_pairs(header or (), option="--header"),
        allow_inside=allow_inside,
    )
    target.check()
    settings = settings_of(data_dir)
    parse_target_url(to, settings.address_rules(allow_inside=allow_inside))
    catalog = catalog_of(settings)
    if name in catalog.names():
        catalog.add(target)  # the error of a name that exists, before its offsets are changed
    commit_start(connect(bootstrap), target, start)  # type: ignore[arg-type]
    catalog.add(target)
    added = AddedTarget(name=name, source=target.source, to=redacted(to), secret=None if given else secret)

    def text() -> None:
        print(f"added webhook out {name}; `headrace webhook out run` delivers to {redacted(to)}")
        if not given:
            print(f"secret: {secret}")
            note("the secret is shown only now: give it to the receiver")

    show(added, format, text)


@app.command("list")
def list_targets(format: Format = "text", data_dir: WebhookDataDir = None) -> None:
    """List webhooks out, and what each does.

    \b
    headrace webhook out list
    """
    settings = settings_of(data_dir)
    look = catalog_of(settings).look()
    rows = [
        listed_target(target, folder_of(settings, name).status())
        for name, target in sorted(look.definitions.items())
    ]
    show_rows(rows, format, empty="there are no webhooks out; `headrace webhook out add` adds one")
    for error in look.damaged.values():
        note(str(error))


@app.command("show")
def show_target(name: Name, format: Format = "text", data_dir: WebhookDataDir = None) -> None:
    """Show the definition of a webhook, and what it does. Secrets and values of headers are not shown.

    \b
    headrace webhook out show big-orders
    """
    settings = settings_of(data_dir)
    target, status = catalog_of(settings).get(name), folder_of(settings, name).status()
    shown = shown_target(target, status, SystemClock().now_ms())

    def text() -> None:
        for field in shown.__struct_fields__:
            value = getattr(shown, field)
            listed = ", ".join(value) if isinstance(value, list) else value
            print(f"{field.replace('_', ' ') + ':':<15} {'-' if listed in (None, '') else listed}")

    show(shown, format, text)


@app.command()
def remove(
    name: Name,
    format: Format = "text",
    bootstrap: Bootstrap = None,
    data_dir: WebhookDataDir = None,
) -> None:
    """Remove a webhook, its history and its committed offsets. Dead letters are kept.

    \b
    headrace webhook out remove big-orders
    """
    settings = settings_of(data_dir)
    cluster = connect(bootstrap)
    catalog_of(settings).remove(name)
    folder_of(settings, name).remove()
    delete_group(cluster, name)
    show(RemovedTarget(name=name), format, f"removed webhook out {name}")


@app.command()
def pause(name: Name, format: Format = "text", data_dir: WebhookDataDir = None) -> None:
    """Send nothing more; the position is kept.

    \b
    headrace webhook out pause big-orders
    """
    settings = settings_of(data_dir)
    catalog_of(settings).get(name)
    folder = folder_of(settings, name)
    if folder.paused() is None:
        folder.pause("by `headrace webhook out pause`", SystemClock().now_ms())
    show(TargetPause(name=name, is_paused=True), format, f"paused webhook out {name}")


@app.command()
def resume(name: Name, format: Format = "text", data_dir: WebhookDataDir = None) -> None:
    """Continue a webhook that was paused, by a person or because its target failed for a day.

    \b
    headrace webhook out resume big-orders
    """
    settings = settings_of(data_dir)
    catalog_of(settings).get(name)
    folder_of(settings, name).resume()
    show(TargetPause(name=name, is_paused=False), format, f"resumed webhook out {name}")


@app.command()
def rotate(
    name: Name,
    overlap: Annotated[
        str, typer.Option("--overlap", metavar="DURATION", help="How long the old secret signs, too.")
    ] = "24h",
    secret_stdin: SecretStdin = False,
    secret_file: SecretFile = None,
    format: Format = "text",
    data_dir: WebhookDataDir = None,
) -> None:
    """Sign with a new secret. Requests have both signatures until the overlap ends.

    \b
    headrace webhook out rotate big-orders
    headrace webhook out rotate big-orders --overlap 1h --secret-stdin
    """
    from headrace.durations import parse_duration_ms
    from headrace.webhooks.secrets import generate_secret, rotated

    given = read_secret(stdin=secret_stdin, file=secret_file)
    secret = given or generate_secret()
    now_ms, overlap_ms = SystemClock().now_ms(), parse_duration_ms(overlap)
    changed = catalog_of(settings_of(data_dir)).change(
        name,
        lambda old: replace(old, secrets=rotated(old.secrets, secret, now_ms=now_ms, overlap_ms=overlap_ms)),
    )
    result = RotatedTarget(name=name, secrets=len(changed.secrets), secret=None if given else secret)

    def text() -> None:
        print(f"rotated the secret of webhook out {name}")
        if not given:
            print(f"secret: {secret}")

    show(result, format, text)


@app.command()
def attempts(
    name: Name,
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="How many.")] = ATTEMPTS,
    failed: Annotated[bool, typer.Option("--failed", help="Only failed ones.")] = False,
    format: Format = "text",
    data_dir: WebhookDataDir = None,
) -> None:
    """Show the last attempts, the newest first: their status, their latency and their error.

    \b
    headrace webhook out attempts big-orders
    headrace webhook out attempts big-orders --failed --count 100 --format json
    """
    from headrace.webhooks.outgoing.attempts import read_attempts

    settings = settings_of(data_dir)
    catalog_of(settings).get(name)
    found = read_attempts(folder_of(settings, name).path, count=count, failed_only=failed)
    rows = [shown_attempt(each) for each in found]
    show_rows(rows, format, empty=f"webhook out {name} has no attempts yet")


@app.command("test")
def send_test(
    name: Name,
    value: Annotated[
        str | None, typer.Option("--value", help="The body. Default: a small JSON object.")
    ] = None,
    format: Format = "text",
    data_dir: WebhookDataDir = None,
) -> None:
    """Send one signed sample, whether the webhook is paused or not, and show the status of the answer.

    \b
    headrace webhook out test big-orders
    headrace webhook out test big-orders --value '{"amount": 101}'
    """
    import asyncio

    from headrace.webhooks.outgoing.outcomes import Verdict
    from headrace.webhooks.outgoing.sample import SAMPLE, send_sample

    settings = settings_of(data_dir)
    target = catalog_of(settings).get(name)
    body = SAMPLE if value is None else value.encode()
    sample_id, answer = asyncio.run(send_sample(target, settings, SystemClock(), value=body))
    is_delivered = answer.verdict is Verdict.DELIVERED
    shown = SampleAnswer(
        id=sample_id,
        is_delivered=is_delivered,
        status=answer.status,
        ms=round(answer.latency_ms, 1),
        error=answer.error,
    )
    outcome = f"HTTP {answer.status}" if is_delivered else answer.error
    show(shown, format, f"{outcome} from {redacted(target.url)} in {shown.ms} ms")
    if not is_delivered:
        raise typer.Exit(1)


@app.command()
def run(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME...]", help="Webhooks; by default all.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Set any setting of [webhook_out]; repeatable."),
    ] = None,
    bootstrap: Bootstrap = None,
    data_dir: WebhookDataDir = None,
) -> None:
    """Deliver until Ctrl-C. Webhooks that are added, changed, paused or removed meanwhile are followed.

    \b
    headrace webhook out run
    headrace webhook out run big-orders --set pause_after_ms=3600000
    """
    from headrace.cli.webhook.outgoing_run import run_until_stopped

    settings = settings_of(data_dir, **parse_pairs(set_ or (), option="--set"))
    catalog = catalog_of(settings)
    for name in names or ():
        catalog.get(name)
    run_until_stopped(connect(bootstrap), settings, names or ())
