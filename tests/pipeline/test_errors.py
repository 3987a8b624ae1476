"""Errors of jobs: which of them a caller catches together."""

from __future__ import annotations

import pytest

from headrace.errors import HeadraceError
from headrace.pipeline.errors import BadJob, BadSink, BadSource, JobFailed, SinkUnavailable


@pytest.mark.parametrize("error", [BadSource, BadSink])
def test_wrong_source_or_sink_is_caught_with_the_wrong_job(error: type[HeadraceError]) -> None:
    with pytest.raises(BadJob, match=r"no column total \(add it\)"):
        raise error("no column total", hint="add it")


@pytest.mark.parametrize("error", [JobFailed, SinkUnavailable])
def test_error_that_a_restart_may_cure_is_not_caught_with_the_wrong_job(error: type[HeadraceError]) -> None:
    assert issubclass(error, HeadraceError)
    assert not issubclass(error, BadJob)
