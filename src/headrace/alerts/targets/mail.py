"""E-mail over SMTP: `mailto://[USER:PASSWORD@]HOST[:PORT]?to=ann@example.com&from=alerts@example.com[&tls=…]`.

`mailtos://` uses TLS from the first byte. `mailto://` uses STARTTLS if the server offers it, and fails without it if
there is a password and the server is on another machine.
"""

from __future__ import annotations

import smtplib
import ssl
from collections.abc import Mapping
from email.message import EmailMessage
from email.utils import formatdate, getaddresses, parseaddr
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from msgspec import Struct

from headrace.alerts.errors import BadAlert, DeliveryFailed
from headrace.alerts.message import Message, MessageKind
from headrace.alerts.rendering import Rendered
from headrace.alerts.targets.sender import Sender
from headrace.loopback import is_loopback
from headrace.redaction import ESCAPE_HINT, redacted

TIMEOUT_S = 30.0
"""For each response of the server: greylisting and content checks take seconds, a server that hangs never ends."""

RECIPIENTS_MAX = 100
"""What servers must take in one mail."""

_PORTS = {"mailto": 25, "mailtos": 465}
_HINT = "mailto://USER:PASSWORD@HOST:587?to=ann@example.com&from=alerts@example.com"
_TLS = ("auto", "off", "required")


class MailAddress(Struct, frozen=True, kw_only=True):
    host: str
    port: int
    user: str = ""
    password: str = ""
    to: tuple[str, ...]
    sender: str
    is_tls: bool = False
    """from the first byte"""
    tls: str = "auto"
    ca_file: str = ""

    @property
    def needs_tls(self) -> bool:
        return self.tls == "required" or (
            self.tls == "auto" and bool(self.password) and not is_loopback(self.host)
        )


def parse_mail_address(address: str) -> MailAddress:
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError as error:
        raise BadAlert(f"{redacted(address)} is not a mail address: {error}", hint=ESCAPE_HINT) from error
    if not parts.hostname:
        raise BadAlert(f"{redacted(address)} names no mail server", hint=_HINT)
    query = {name: values[-1] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
    for name in query:
        if name not in ("to", "from", "tls", "ca"):
            raise BadAlert(f"mail addresses have no option {name!r}", hint="to, from, tls and ca")
    tls = query.get("tls", "auto")
    if tls not in _TLS:
        raise BadAlert(f"tls={tls} is unknown", hint=f"choose from {', '.join(_TLS)}")
    to = recipients_of(address)
    if not to:
        raise BadAlert(f"{redacted(address)} names no recipient", hint=_HINT)
    if len(to) > RECIPIENTS_MAX:
        raise BadAlert(f"a mail address has {len(to)} recipients", hint=f"at most {RECIPIENTS_MAX}")
    return MailAddress(
        host=parts.hostname,
        port=port or _PORTS[parts.scheme.lower()],
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        to=to,
        sender=_sender(parts, query, to),
        is_tls=parts.scheme.lower() == "mailtos",
        tls=tls,
        ca_file=query.get("ca", ""),
    )


def recipients_of(address: str) -> tuple[str, ...]:
    """The addresses in `to`, which is repeatable and takes commas."""
    _, _, query = address.partition("?")
    found = getaddresses(parse_qs(query).get("to", []))
    recipients = tuple(each for _, each in found)
    for each in recipients:
        _check_mailbox(each)
    return recipients


def _sender(parts: SplitResult, query: Mapping[str, str], to: tuple[str, ...]) -> str:
    if "from" in query:
        sender = parseaddr(query["from"])[1]
    else:
        user = unquote(parts.username or "")
        sender = user if "@" in user else f"headrace@{to[0].rpartition('@')[2]}"
    _check_mailbox(sender)
    return sender


def _check_mailbox(text: str) -> None:
    name, separator, host = text.rpartition("@")
    if not (name and separator and host) or any(each.isspace() or not each.isprintable() for each in text):
        raise BadAlert(f"{text!r} is not a mail address", hint="such as ann@example.com")


class MailSender(Sender):
    def __init__(self, address: str) -> None:
        self._address = parse_mail_address(address)

    def send(self, message: Message, content: Rendered) -> str:
        mail = self._mail(message, content)
        try:
            with self._connected() as server:
                refused = server.send_message(mail, self._address.sender, self._address.to)
        except smtplib.SMTPRecipientsRefused as error:
            raise _refused(error) from error
        except smtplib.SMTPAuthenticationError as error:
            raise DeliveryFailed(f"the mail server rejects the password: {_reply(error)}") from error
        except smtplib.SMTPResponseException as error:
            is_final = 500 <= error.smtp_code < 600 and not isinstance(
                error, smtplib.SMTPConnectError | smtplib.SMTPHeloError
            )
            raise DeliveryFailed(f"the mail server rejects it: {_reply(error)}", is_final=is_final) from error
        except (OSError, smtplib.SMTPException, ssl.SSLError) as error:
            raise DeliveryFailed(f"mail server {self._address.host}:{self._address.port}: {error}") from error
        return f"refused: {', '.join(refused)}" if refused else ""

    def _mail(self, message: Message, content: Rendered) -> EmailMessage:
        address = self._address
        mail = EmailMessage()
        mail["Subject"] = content.title
        mail["From"] = address.sender
        mail["To"] = ", ".join(address.to)
        mail["Date"] = formatdate(message.at_ms / 1_000, usegmt=True)
        # The same at each attempt: servers and people can drop a mail that comes again.
        mail["Message-ID"] = message_id(message, address.sender)
        mail["Auto-Submitted"] = "auto-generated"  # no replies of people on holiday
        mail["X-Headrace-Alert"] = message.alert
        if message.kind is MessageKind.ESCALATION:
            mail["Importance"] = "high"
        mail.set_content(content.text)
        if content.html:
            mail.add_alternative(content.html, subtype="html")
        return mail

    def _connected(self) -> smtplib.SMTP:
        address = self._address
        context = ssl.create_default_context(cafile=address.ca_file or None)
        if address.is_tls:
            server: smtplib.SMTP = smtplib.SMTP_SSL(
                address.host, address.port, timeout=TIMEOUT_S, context=context
            )
        else:
            server = smtplib.SMTP(address.host, address.port, timeout=TIMEOUT_S)
        try:
            server.ehlo()
            if not address.is_tls and address.tls != "off":
                if server.has_extn("starttls"):
                    server.starttls(context=context)
                    server.ehlo()
                elif address.needs_tls:
                    raise DeliveryFailed(
                        f"mail server {address.host} offers no TLS, so the password is not sent",
                        is_final=True,
                    )
            if address.password:
                server.login(address.user, address.password)
        except BaseException:
            server.close()
            raise
        return server


def message_id(message: Message, sender: str) -> str:
    return f"<{message.id}@alerts.{sender.rpartition('@')[2]}>"


def _refused(error: smtplib.SMTPRecipientsRefused) -> DeliveryFailed:
    codes = {each: code for each, (code, _) in error.recipients.items()}
    reasons = "; ".join(
        f"{each}: {code} {text.decode(errors='replace')}" for each, (code, text) in error.recipients.items()
    )
    return DeliveryFailed(
        f"the mail server rejects all recipients: {reasons}"[:1_000],
        is_final=all(code >= 500 for code in codes.values()),
    )


def _reply(error: smtplib.SMTPResponseException) -> str:
    text = error.smtp_error
    return f"{error.smtp_code} {text.decode(errors='replace') if isinstance(text, bytes) else text}"[:500]
