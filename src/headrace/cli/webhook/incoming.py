"""`headrace webhook in`: sources of webhooks, which the gateway receives at /webhooks/NAME."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, cast, get_args

import typer
from msgspec import Struct
from msgspec.structs import replace

from headrace.cli.command import command_group
from headrace.cli.completion import complete_topics
from headrace.cli.output import Format, format_time, show, show_rows
from headrace.cli.webhook.incoming_results import (
    ListedSource,
    RemovedSource,
    ShownSource,
    StoredSource,
    Tested,
)
from headrace.cli.webhook.secret_input import SecretFile, SecretStdin, read_secret
from headrace.clock import SystemClock
from headrace.durations import parse_duration_ms
from headrace.webhooks.catalog import Catalog
from headrace.webhooks.errors import BadWebhook
from headrace.webhooks.incoming.source import (
    BODY_BYTES_MAX,
    KINDS,
    RATE_PER_S_MAX,
    Algorithm,
    Encoding,
    HmacRule,
    Kind,
    Source,
    sources,
)
from headrace.webhooks.secrets import Secret, generate_secret, rotated

app = command_group("Webhooks in: requests of other systems become events. `headrace gateway` receives them.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The source's name, and the end of its URL.")]
DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        help="Folder with the definitions, that of the gateway. Default: [edge] data_dir in headrace.toml, else data.",
    ),
]
Generate = Annotated[bool, typer.Option("--generate-secret", help="Make a random secret, and print it once.")]


@app.command()
def add(
    name: Name,
    topic: Annotated[
        str, typer.Option("--topic", "-t", help="The topic to write to.", autocompletion=complete_topics)
    ],
    kind: Annotated[
        Kind | None,
        typer.Option("--kind", help="How requests are signed. Default: NAME if it is a kind, else standard."),
    ] = None,
    secret_stdin: SecretStdin = False,
    secret_file: SecretFile = None,
    generate: Generate = False,
    key_field: Annotated[
        str, typer.Option(metavar="FIELD", help="Field of the JSON body with the key: repository.id.")
    ] = "",
    key_header: Annotated[str, typer.Option(metavar="HEADER", help="Header with the key.")] = "",
    id_field: Annotated[str, typer.Option(metavar="FIELD", help="Field with the id of the request.")] = "",
    id_header: Annotated[str, typer.Option(metavar="HEADER", help="Header with the id.")] = "",
    event_field: Annotated[str, typer.Option(metavar="FIELD", help="Field with the type of the event.")] = "",
    event_header: Annotated[str, typer.Option(metavar="HEADER", help="Header with the type.")] = "",
    header: Annotated[
        list[str] | None,
        typer.Option(metavar="HEADER", help="Header that the event gets, too; repeatable."),
    ] = None,
    tolerance: Annotated[
        str, typer.Option(metavar="DURATION", help="How old or new a signature may be.")
    ] = "5m",
    window: Annotated[
        str, typer.Option(metavar="DURATION", help="How long a repeated request is known.")
    ] = "1d",
    body_bytes_max: Annotated[int, typer.Option(help="Larger bodies are rejected.")] = BODY_BYTES_MAX,
    rate_max: Annotated[int, typer.Option(help="Verified requests per second.")] = RATE_PER_S_MAX,
    signature_header: Annotated[
        str, typer.Option(metavar="HEADER", help="plain-hmac: the header of the signature.")
    ] = "x-signature",
    algorithm: Annotated[Algorithm, typer.Option(help="plain-hmac: the hash.")] = "sha256",
    encoding: Annotated[Encoding, typer.Option(help="plain-hmac: of the signature.")] = "hex",
    prefix: Annotated[str, typer.Option(help="plain-hmac: in front of the signature, such as sha256=.")] = "",
    signed: Annotated[
        str, typer.Option(metavar="TEXT", help="plain-hmac: what is signed: v0:{timestamp}:{body}.")
    ] = "{body}",
    timestamp_header: Annotated[
        str, typer.Option(metavar="HEADER", help="plain-hmac: has seconds since 1970.")
    ] = "",
    format: Format = "text",
    data_dir: DataDir = None,
) -> None:
    """Add a source of webhooks. The gateway receives its requests at POST /webhooks/NAME, without a restart.

    \b
    headrace webhook in add github --topic pushes --secret-stdin --key-field repository.id < secret.txt
    headrace webhook in add payments --kind stripe --topic payments --secret-file stripe.secret
    headrace webhook in add partner --topic orders --generate-secret
    headrace webhook in add shop --kind plain-hmac --topic orders --secret-stdin \\
        --signature-header X-Shopify-Hmac-Sha256 --encoding base64 --id-header X-Shopify-Webhook-Id
    """
    chosen = kind or cast("Kind", name if name in get_args(Kind) else "standard")
    secret, generated = _secret(stdin=secret_stdin, file=secret_file, generate=generate)
    rule = HmacRule(
        header=signature_header,
        algorithm=algorithm,
        encoding=encoding,
        prefix=prefix,
        signed=signed,
        timestamp_header=timestamp_header,
    )
    if chosen != "plain-hmac" and rule != HmacRule():
        raise typer.BadParameter(f"kind {chosen} knows its own signature", param_hint="options of plain-hmac")
    source = Source(
        name=name,
        kind=chosen,
        topic=topic,
        secrets=(Secret(text=secret),) if secret else (),
        hmac=rule if chosen == "plain-hmac" else None,
        key_field=key_field,
        key_header=key_header,
        id_field=id_field,
        id_header=id_header,
        event_field=event_field,
        event_header=event_header,
        headers=tuple(header or ()),
        tolerance_s=parse_duration_ms(tolerance) // 1000,
        window_s=parse_duration_ms(window) // 1000,
        body_bytes_max=body_bytes_max,
        rate_per_s_max=rate_max,
    )
    _catalog(data_dir).add(source)
    _show_stored(source, generated, format, "added")


@app.command("list")
def list_sources(format: Format = "text", data_dir: DataDir = None) -> None:
    """List the sources of webhooks.

    \b
    headrace webhook in list
    headrace webhook in list --format json
    """
    now_ms = SystemClock().now_ms()
    rows = [
        ListedSource(
            name=each.name,
            kind=each.kind,
            topic=each.topic,
            path=_path(each.name),
            secrets=len(each.valid_secrets(now_ms)),
        )
        for each in _catalog(data_dir).all()
    ]
    show_rows(rows, format, empty="no webhooks in yet: `headrace webhook in add NAME --topic TOPIC` adds one")


@app.command("show")
def show_source(name: Name, format: Format = "text", data_dir: DataDir = None) -> None:
    """Show a source: everything but its secrets.

    \b
    headrace webhook in show github
    """
    source = _catalog(data_dir).get(name)
    shown = ShownSource(
        name=name,
        kind=source.kind,
        signed_by=_signed_by(source),
        topic=source.topic,
        path=_path(name),
        secrets=[
            "until it is rotated" if until is None else f"until {format_time(until)}"
            for until in (each.valid_until_ms for each in source.secrets)
        ],
        key=_place(source.key_field, source.key_header),
        id=_place(source.id_field, source.id_header),
        event=_place(source.event_field, source.event_header),
        headers=list(source.headers),
        tolerance_s=source.tolerance_s,
        window_s=source.replay_window_ms // 1000,
        body_bytes_max=source.body_bytes_max,
        rate_per_s_max=source.rate_per_s_max,
    )
    show(shown, format, lambda: _print_fields(shown))


@app.command()
def rotate(
    name: Name,
    secret_stdin: SecretStdin = False,
    secret_file: SecretFile = None,
    generate: Generate = False,
    overlap: Annotated[
        str, typer.Option(metavar="DURATION", help="How long the old secret stays valid.")
    ] = "1d",
    format: Format = "text",
    data_dir: DataDir = None,
) -> None:
    """Give a source a new secret. The old one stays valid for a time, until the sender uses the new one.

    \b
    headrace webhook in rotate github --secret-stdin < new-secret.txt
    headrace webhook in rotate partner --generate-secret --overlap 1h
    """
    secret, generated = _secret(stdin=secret_stdin, file=secret_file, generate=generate)
    if not secret:
        raise BadWebhook(
            "there is no new secret",
            hint="pass it with --secret-stdin or --secret-file, or --generate-secret",
        )
    now_ms, overlap_ms = SystemClock().now_ms(), parse_duration_ms(overlap)

    def with_secret(old: Source) -> Source:
        if old.kind == "none":
            raise BadWebhook(f"webhook in {name} has no secret", hint="its kind verifies nothing")
        return replace(old, secrets=rotated(old.secrets, secret, now_ms=now_ms, overlap_ms=overlap_ms))

    source = _catalog(data_dir).change(name, with_secret)
    _show_stored(source, generated, format, "has a new secret:")


@app.command()
def remove(name: Name, format: Format = "text", data_dir: DataDir = None) -> None:
    """Remove a source: its requests get 404. Its topic stays.

    \b
    headrace webhook in remove github
    """
    _catalog(data_dir).remove(name)
    done = f"removed webhook in {name}; its topic stays"
    show(RemovedSource(name=name, done=done), format, done)


@app.command("test")
def send_sample(
    name: Name,
    url: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="The whole URL. Default: /webhooks/NAME of the gateway of the settings."
        ),
    ] = None,
    body_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The body. Default: a small JSON object.")
    ] = None,
    curl: Annotated[bool, typer.Option("--curl", help="Print the command that sends it instead.")] = False,
    format: Format = "text",
    data_dir: DataDir = None,
) -> None:
    """Send a request as the sender of a source would sign it. It becomes an event; of kind github it is a ping.

    \b
    headrace webhook in test github
    headrace webhook in test partner --body-file order.json
    headrace webhook in test partner --curl
    """
    import secrets

    from headrace.cli.webhook.sample_sender import send
    from headrace.webhooks.incoming.sample import SAMPLE_TYPE, sample_of

    source = _catalog(data_dir).get(name)
    body = None if body_file is None else _read_body(body_file)
    is_ping = source.kind == "github" and body is None
    sample = sample_of(
        source,
        message_id=f"test_{secrets.token_hex(8)}",
        now_ms=SystemClock().now_ms(),
        body=body,
        event="ping" if is_ping else SAMPLE_TYPE,
    )
    address = url or f"{_gateway()}{_path(name)}"
    command = sample.curl(address)
    if curl:
        show(Tested(url=address, status=None, response=None, curl=command), format, command)
        return
    status, response = send(address, sample)
    show(
        Tested(url=address, status=status, response=response, curl=command),
        format,
        f"{status} {response}",
    )
    raise typer.Exit(0 if 200 <= status < 300 else 1)


def _read_body(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise BadWebhook(f"can't read {file}: {error.strerror}", hint="name a file with the body") from error


def _catalog(data_dir: Path | None) -> Catalog[Source]:
    from headrace.edges.settings import edge_settings

    return sources(edge_settings(data_dir=data_dir).data_dir)


def _secret(*, stdin: bool, file: Path | None, generate: bool) -> tuple[str | None, str | None]:
    """The secret, and again if it was generated."""
    given = read_secret(stdin=stdin, file=file)
    if not generate:
        return given, None
    if given is not None:
        raise typer.BadParameter(
            "it excludes --secret-stdin and --secret-file", param_hint="--generate-secret"
        )
    made = generate_secret()
    return made, made


def _show_stored(source: Source, generated: str | None, format: Literal["text", "json"], done: str) -> None:
    path = _path(source.name)
    stored = StoredSource(name=source.name, kind=source.kind, topic=source.topic, path=path, secret=generated)
    text = f"webhook in {source.name} {done} {source.kind}, POST {path} writes to {source.topic}"
    show(stored, format, text if generated is None else f"{text}\nsecret: {generated}")


def _gateway() -> str:
    from headrace.gateway.settings import gateway_settings

    settings = gateway_settings()
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"http://{host}:{settings.port}"


def _path(name: str) -> str:
    return f"/webhooks/{name}"


def _signed_by(source: Source) -> str:
    rule = source.hmac
    if rule is None:
        return KINDS[source.kind]
    return f"{rule.header}: {rule.prefix}{rule.encoding}(hmac-{rule.algorithm}({rule.signed}))"


def _place(field: str, header: str) -> str | None:
    if field:
        return f"field {field}"
    return f"header {header}" if header else None


def _print_fields(shown: Struct) -> None:
    for name in shown.__struct_fields__:
        value = getattr(shown, name)
        text = ", ".join(value) if isinstance(value, list) else value
        print(f"{name.replace('_', ' ')}: {'-' if text in (None, '') else text}")
