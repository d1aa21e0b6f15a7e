"""The Python SDK: `Client` and `AsyncClient` with the same verbs, job handles, and an `Executor` for commands."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rainbow_sched.client.async_client import AsyncClient, AsyncJobHandle, JobFailed, JobResult
    from rainbow_sched.client.blocking_client import Client, JobHandle
    from rainbow_sched.client.executor import Executor
    from rainbow_sched.client.jobs import JobFilter
    from rainbow_sched.client.settings import ClientSettings, resolve
    from rainbow_sched.client.submission import JobSubmission, command

_NAMES_BY_MODULE = {  # imported at the first use of a name: the command line needs few of them and starts often
    "async_client": ("AsyncClient", "AsyncJobHandle", "JobFailed", "JobResult"),
    "blocking_client": ("Client", "JobHandle"),
    "executor": ("Executor",),
    "jobs": ("JobFilter",),
    "settings": ("ClientSettings", "resolve"),
    "submission": ("JobSubmission", "command"),
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
    for module, names in _NAMES_BY_MODULE.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
