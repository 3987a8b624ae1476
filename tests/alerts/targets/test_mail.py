"""E-mail to a real SMTP server: TLS, passwords, rejections, a server that hangs, and addresses of any kind."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.alerts.errors import BadAlert, DeliveryFailed
from headrace.alerts.rendering import Rendered
from headrace.alerts.targets import mail as mail_module
from headrace.alerts.targets.mail import MailSender, message_id, parse_mail_address, recipients_of
from tests.alerts.servers import MailServer
from tests.alerts.targets.certificates import Certificate, new_certificate
from tests.alerts.targets.messages import CONTENT, firing


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return new_certificate(tmp_path_factory.mktemp("tls"))


def test_mail_has_the_text_the_html_and_the_same_id_at_each_attempt(mail: MailServer) -> None:
    sender = MailSender(mail.address("ann@example.com,bob@example.com", options="&from=ops@example.com"))
    content = Rendered(title="errors fires: größer ☃", text="é\n.\nend", html="<b>é</b>")
    for _ in range(2):
        assert sender.send(firing(), content) == ""
    first, second = mail.mails
    assert first["Message-ID"] == second["Message-ID"] == "<a1-7@alerts.example.com>"
    assert (first["Subject"], first["From"], first["To"]) == (
        "errors fires: größer ☃",
        "ops@example.com",
        "ann@example.com, bob@example.com",
    )
    assert first["Auto-Submitted"] == "auto-generated"
    body, html = first.get_body(("plain",)), first.get_body(("html",))
    assert body is not None
    assert html is not None
    assert body.get_content().splitlines() == ["é", ".", "end"]
    assert html.get_content().strip() == "<b>é</b>"
    assert mail.recipients[0] == ["ann@example.com", "bob@example.com"]


def test_title_cannot_add_a_header(mail: MailServer) -> None:
    with pytest.raises(ValueError, match="linefeed"):
        MailSender(mail.address()).send(firing(), Rendered(title="a\nBcc: eve@example.com", text=""))
    assert mail.mails == []


def test_starttls_with_a_password(certificate: Certificate) -> None:
    with MailServer(starttls=certificate.server(), user="ann", password="p@ss:word") as server:
        address = server.address(user="ann:p%40ss%3Aword@", options=f"&ca={certificate.path}&tls=required")
        MailSender(address).send(firing(), CONTENT)
        assert server.subjects == ["title"]
        with pytest.raises(DeliveryFailed, match="rejects the password"):
            MailSender(server.address(user="ann:wrong@", options=f"&ca={certificate.path}")).send(
                firing(), CONTENT
            )


def test_tls_from_the_first_byte(certificate: Certificate) -> None:
    with MailServer(tls=certificate.server()) as server:
        address = server.address(options=f"&ca={certificate.path}").replace("mailto:", "mailtos:")
        MailSender(address).send(firing(), CONTENT)
        assert server.subjects == ["title"]


def test_unknown_certificate_is_rejected(certificate: Certificate) -> None:
    with MailServer(starttls=certificate.server()) as server:
        with pytest.raises(DeliveryFailed, match="CERTIFICATE_VERIFY_FAILED"):
            MailSender(server.address()).send(firing(), CONTENT)
        assert server.mails == []


def test_server_without_tls_gets_no_mail_if_it_is_required(mail: MailServer) -> None:
    with pytest.raises(DeliveryFailed, match="offers no TLS") as failed:
        MailSender(mail.address(options="&tls=required")).send(firing(), CONTENT)
    assert failed.value.is_final


def test_password_goes_to_another_machine_only_with_tls() -> None:
    assert parse_mail_address("mailto://a:b@mail.example?to=ann@example.com").needs_tls
    assert not parse_mail_address("mailto://a:b@127.0.0.1?to=ann@example.com").needs_tls
    assert not parse_mail_address("mailto://a:b@mail.example?to=ann@example.com&tls=off").needs_tls


def test_unknown_recipient_is_a_remark_and_no_recipient_is_final(mail: MailServer) -> None:
    mail.unknown.add("eve@example.com")
    assert MailSender(mail.address("ann@example.com,eve@example.com")).send(firing(), CONTENT) == (
        "refused: eve@example.com"
    )
    with pytest.raises(DeliveryFailed, match="no such mailbox") as failed:
        MailSender(mail.address("eve@example.com")).send(firing(), CONTENT)
    assert failed.value.is_final


@pytest.mark.parametrize(("response", "is_final"), [("451 try later", False), ("554 spam", True)])
def test_rejection_is_final_if_its_code_is(mail: MailServer, response: str, is_final: bool) -> None:
    mail.failures.append(response)
    with pytest.raises(DeliveryFailed, match=response) as failed:
        MailSender(mail.address()).send(firing(), CONTENT)
    assert failed.value.is_final is is_final


def test_server_that_hangs_is_given_up(mail: MailServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mail_module, "TIMEOUT_S", 0.3)
    mail.hangs = True
    with pytest.raises(DeliveryFailed, match="timed out") as failed:
        MailSender(mail.address()).send(firing(), CONTENT)
    assert not failed.value.is_final


def test_server_that_is_unavailable_is_no_final_failure(mail: MailServer) -> None:
    with pytest.raises(DeliveryFailed, match=r"127\.0\.0\.1:1: .*refused") as failed:
        MailSender("mailto://127.0.0.1:1?to=ann@example.com").send(firing(), CONTENT)
    assert not failed.value.is_final


@pytest.mark.parametrize(
    "address",
    [
        "mailto://?to=ann@example.com",
        "mailto://host",
        "mailto://host?to=ann",
        "mailto://host?to=ann@example.com&form=x@example.com",
        "mailto://host?to=ann@example.com&tls=maybe",
        "mailto://host?to=ann@example.com&from=nobody",
        "mailto://host:port?to=ann@example.com",
        "mailto://[::1?to=ann@example.com",
        "mailto://host?to=" + ",".join(f"a{number}@example.com" for number in range(101)),
    ],
)
def test_bad_address_is_an_error_with_a_remedy(address: str) -> None:
    with pytest.raises(BadAlert) as failed:
        parse_mail_address(address)
    assert failed.value.hint


@given(st.text(max_size=80))
def test_any_text_is_an_address_or_an_error(text: str) -> None:
    try:
        found = parse_mail_address(f"mailto://{text}")
    except BadAlert:
        return
    assert found.to
    assert all("@" in each and "\n" not in each for each in (*found.to, found.sender))


def test_sender_is_the_user_if_that_is_an_address() -> None:
    assert (
        parse_mail_address("mailto://ops%40example.com:x@host?to=a@example.org").sender == "ops@example.com"
    )
    assert parse_mail_address("mailto://host?to=a@example.org").sender == "headrace@example.org"
    assert recipients_of("mailto://host?to=a@example.org&to=Bob%20<b@example.org>") == (
        "a@example.org",
        "b@example.org",
    )
    assert message_id(firing(), "ops@example.com") == "<a1-7@alerts.example.com>"
