"""Real servers for messages: SMTP with TLS and passwords, and HTTP. They can hang and reject."""

from __future__ import annotations

import asyncio
import email
import json
import ssl
import threading
from collections.abc import Callable
from email import policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from headrace.testing.ports import free_port


class _Handler:
    def __init__(self, server: MailServer) -> None:
        self._server = server

    async def handle_RCPT(
        self, smtp: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if address in self._server.unknown:
            return "550 5.1.1 no such mailbox"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, smtp: SMTP, session: Session, envelope: Envelope) -> str:
        if self._server.hangs:
            await asyncio.sleep(3600)
        if self._server.failures:
            return self._server.failures.pop(0)
        content = envelope.content
        assert isinstance(content, bytes)
        found = email.message_from_bytes(content, policy=policy.default)
        assert isinstance(found, EmailMessage)
        self._server.took(found, [str(each) for each in envelope.rcpt_tos])
        return "250 taken"


class MailServer:
    """An SMTP server on a free port of 127.0.0.1."""

    def __init__(
        self,
        *,
        tls: ssl.SSLContext | None = None,
        starttls: ssl.SSLContext | None = None,
        user: str = "",
        password: str = "",
        port: int = 0,
    ) -> None:
        self.mails: list[EmailMessage] = []
        self.recipients: list[list[str]] = []
        self.unknown: set[str] = set()
        self.failures: list[str] = []
        """responses to the next mails"""
        self.hangs = False
        self.on_mail: Callable[[], None] = lambda: None
        self._changed = threading.Condition()

        def check(
            server: Any, session: Any, envelope: Any, mechanism: str, data: LoginPassword
        ) -> AuthResult:
            is_right = (data.login, data.password) == (user.encode(), password.encode())
            return AuthResult(success=is_right, handled=False)

        options: dict[str, Any] = {}
        if user:
            options = {
                "auth_required": True,
                "authenticator": check,
                "auth_require_tls": tls is None,
            }
        if starttls is not None:
            options["tls_context"] = starttls
        self.port = port or free_port()
        self._controller = Controller(
            _Handler(self), hostname="127.0.0.1", port=self.port, ssl_context=tls, **options
        )

    def took(self, mail: EmailMessage, recipients: list[str]) -> None:
        with self._changed:
            self.mails.append(mail)
            self.recipients.append(recipients)
            self._changed.notify_all()
        self.on_mail()

    def wait_for(self, condition: Callable[[list[EmailMessage]], bool], timeout_s: float = 60) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: condition(self.mails), timeout_s), self.subjects

    @property
    def subjects(self) -> list[str]:
        return [str(each["Subject"]) for each in self.mails]

    @property
    def ids(self) -> list[str]:
        return [str(each["Message-ID"]) for each in self.mails]

    def address(self, to: str = "ann@example.com", *, user: str = "", options: str = "") -> str:
        return f"mailto://{user}127.0.0.1:{self.port}?to={to}{options}"

    def __enter__(self) -> Self:
        self._controller.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._controller.stop()


class HttpServer:
    """Keeps what is posted to it, and responds as it is asked to."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.statuses: list[int] = []
        """of the next responses; 204 afterwards"""
        self.hangs = threading.Event()
        self._changed = threading.Condition()
        self._ending = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if outer.hangs.is_set():
                    outer._ending.wait()
                status = outer.statuses.pop(0) if outer.statuses else 204
                headers = {name.lower(): value for name, value in self.headers.items()}
                with outer._changed:
                    outer.requests.append((self.path, headers, body))
                    outer._changed.notify_all()
                self.send_response(status)
                if 300 <= status < 400:
                    self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def wait_for(self, count: int, timeout_s: float = 60) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.requests) >= count, timeout_s), self.requests

    def bodies(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, _, body in self.requests]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._ending.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
