"""The keys of web push."""

from __future__ import annotations

import base64

from py_vapid import Vapid02

from headrace.alerts.targets.vapid import new_keys


def test_keys_belong_together_and_differ_each_time() -> None:
    keys, others = new_keys("mailto:a@example.com"), new_keys("mailto:a@example.com")
    point = base64.urlsafe_b64decode(keys.public + "==")
    assert (len(point), point[0]) == (65, 4)
    assert Vapid02.from_pem(keys.private_pem.encode()).public_key is not None
    assert keys.public != others.public
