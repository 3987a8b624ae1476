"""`headrace ask`: a question to a running job, or a server that asks for others."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import typer
from msgspec import Struct

from headrace.cli.command import Bootstrap, command_app
from headrace.cli.output import Format, note, result, show
from headrace.durations import parse_duration_ms
from headrace.kafka.settings import parse_address
from headrace.printable import printable_json
from headrace.questions.errors import BadQuestion

app = command_app()


@result("ask")
class GivenAnswer(Struct, frozen=True, kw_only=True):
    question: str
    value: Annotated[Any, "what the job's `combine` returned"]
    job: str
    batch_id: Annotated[int | None, "the committed batch after which the state was read"]
    partitions: Annotated[int, "how many partitions have state"]
    missing: Annotated[list[int], "partitions that are not part of the answer"]
    reasons: Annotated[list[str], "why they are missing"]
    is_partial: bool


@app.command()
def ask(
    question: Annotated[
        str, typer.Argument(metavar="[QUESTION]", help="Its name, such as reach or state.JOB.")
    ] = "",
    payload: Annotated[str, typer.Argument(metavar="[JSON]", help="The payload; {} by default.")] = "{}",
    timeout: Annotated[str, typer.Option(metavar="TIME", help="How long to wait for the answer.")] = "5s",
    serve: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT", help="Serve POST /ask/QUESTION over HTTP instead; port 0 is a free one."
        ),
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Serve an address that other machines reach.")
    ] = False,
    format: Format = "text",
    bootstrap: Bootstrap = None,
) -> None:
    """Ask a running job. The answer is gathered from the state of all partitions, after the last committed batch.

    \b
    headrace ask reach '{"url": "https://example.org"}'
    headrace ask state.clicks-by-url '{"key": {"url": "/shop"}}' --format json
    headrace ask --serve 127.0.0.1:8090            POST /ask/reach
    """
    from headrace.questions.client import Questions

    if serve is not None:
        from headrace.questions.http import serve as serve_http

        host, port = parse_address(serve)
        with Questions(bootstrap) as questions:
            serve_http(
                questions,
                host,
                port,
                is_open=insecure,
                on_ready=lambda url: print(f"questions at {url}", flush=True),
            )
        return
    if not question:
        raise BadQuestion("no question is named", hint="`headrace ask --help` has examples")
    timeout_s = parse_duration_ms(timeout) / 1000
    with Questions(bootstrap) as questions:
        found = questions.ask(question, _parsed(payload), timeout_s=timeout_s)
    given = GivenAnswer(
        question=found.question,
        value=found.value,
        job=found.job,
        batch_id=found.batch_id,
        partitions=found.partitions,
        missing=list(found.missing),
        reasons=list(found.reasons),
        is_partial=found.is_partial,
    )
    show(given, format, lambda: print(printable_json(given.value)))
    if given.is_partial:
        note(
            f"partial: {len(given.missing)} of {given.partitions} partitions are missing ({'; '.join(given.reasons)})"
        )


def _parsed(payload: str) -> Any:
    try:
        return msgspec.json.decode(payload)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadQuestion(
            f"the payload is not JSON: {error}", hint="""such as '{"url": "/shop"}'"""
        ) from error
