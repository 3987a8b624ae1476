"""Errors of jobs that callers tell apart. Everything else is a `HeadraceError` with its message and hint."""

from __future__ import annotations

from headrace.errors import HeadraceError


class BadJob(HeadraceError):
    """The job cannot run as it is declared, or does not fit its checkpoint or its target. A restart would not help."""


class JobFailed(HeadraceError):
    """A job failed and is not restarted any more."""
