from __future__ import annotations

from headrace.gateway.queues.answers import AcknowledgedAnswer, ReceivedAnswer
from tests.gateway.conftest import Serving, Write
from tests.gateway.queue_worker import Worker


def test_responses_have_the_form_of_the_documentation(gateway: Serving, topic: str, write: Write) -> None:
    worker = Worker(gateway.url, topic, f"{topic}-workers")
    write(topic, b"1", partition=0, key=b"k")
    response = worker.ask()
    (message,) = ReceivedAnswer.model_validate(response.json(), extra="forbid").messages
    answered = worker.accept(message.receipt, "wrong").json()
    results = AcknowledgedAnswer.model_validate({"results": answered["results"]}, extra="forbid").results
    assert [each.error_code for each in results] == [None, 40003]
