"""Sending a sample of a webhook over HTTP."""

from __future__ import annotations

import urllib.error
import urllib.request

from headrace.webhooks.errors import BadWebhook
from headrace.webhooks.incoming.sample import Sample

SEND_S_MAX = 30.0


def send(url: str, sample: Sample) -> tuple[int, str]:
    """Status and body of the response, also of an error."""
    try:
        if not url.startswith(("http://", "https://")):
            raise ValueError("it is not an address of HTTP")
        request = urllib.request.Request(url, data=sample.body, headers=dict(sample.headers), method="POST")
        with urllib.request.urlopen(request, timeout=SEND_S_MAX) as response:
            return response.status, response.read().decode(errors="replace")
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(errors="replace")
    except (OSError, ValueError) as error:
        raise BadWebhook(
            f"can't send to {url}: {error}",
            hint="`headrace gateway` receives webhooks; --url names its address",
        ) from error
