"""Errors of jobs that callers distinguish. Everything else is a `HeadraceError` with its message and hint."""

from __future__ import annotations

from headrace.errors import HeadraceError


class BadJob(HeadraceError):
    """The job cannot run as it is declared, or does not fit its checkpoint or its target. A restart would not help."""


class JobFailed(HeadraceError):
    """A job failed and is not restarted any more."""


class BadSource(BadJob):
    """A source that cannot be read as declared: a wrong option, schema or position."""


class BadSink(BadJob):
    """A sink that cannot be written or read as declared: a wrong option or column, or a target that does not fit."""


class SinkUnavailable(HeadraceError):
    """The target cannot be written now. The same batch is written again later."""
