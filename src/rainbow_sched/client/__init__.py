"""The Python SDK: `Client` and `AsyncClient` with the same verbs, job handles, and an `Executor` for commands."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rainbow_sched.client.async_client import AsyncClient, AsyncJobHandle, JobFailed, JobResult
    from rainbow_sched.client.blocking_client import Client, JobHandle
    from rainbow_sched.client.executor import Executor
    from rainbow_sched.client.jobs.codec import JobFilter
    from rainbow_sched.client.settings import ClientSettings, resolve
    from rainbow_sched.client.submission import JobSubmission, command

_MODULES = {  # imported at the first use of a name: the command line needs few of them and starts often
    "AsyncClient": "async_client",
    "AsyncJobHandle": "async_client",
    "Client": "blocking_client",
    "ClientSettings": "settings",
    "Executor": "executor",
    "JobFailed": "async_client",
    "JobFilter": "jobs.codec",
    "JobHandle": "blocking_client",
    "JobResult": "async_client",
    "JobSubmission": "submission",
    "command": "submission",
    "resolve": "settings",
}

__all__ = [
    "AsyncClient",
    "AsyncJobHandle",
    "Client",
    "ClientSettings",
    "Executor",
    "JobFailed",
    "JobFilter",
    "JobHandle",
    "JobResult",
    "JobSubmission",
    "command",
    "resolve",
]


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
