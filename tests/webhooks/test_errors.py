"""Errors of webhooks."""

from __future__ import annotations

import pytest

from headrace.errors import HeadraceError
from headrace.webhooks.errors import BadWebhook, DamagedDefinition, NoSuchWebhook


@pytest.mark.parametrize("kind", [BadWebhook, DamagedDefinition, NoSuchWebhook])
def test_command_shows_message_and_hint_of_every_kind(kind: type[HeadraceError]) -> None:
    assert str(kind("the secret is empty", hint="pass one")) == "the secret is empty (pass one)"
