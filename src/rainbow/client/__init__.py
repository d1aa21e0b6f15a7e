"""The Python SDK: `Client` and `AsyncClient` with the same verbs, job handles, and an `Executor` for commands."""

from rainbow.client.aio import AsyncClient, AsyncJobHandle, JobFailed, Result
from rainbow.client.executor import Executor
from rainbow.client.settings import Settings, resolve
from rainbow.client.submission import Submission, command
from rainbow.client.sync import Client, JobHandle
from rainbow.client.wire import JobFilter

__all__ = [
    "AsyncClient",
    "AsyncJobHandle",
    "Client",
    "Executor",
    "JobFailed",
    "JobFilter",
    "JobHandle",
    "Result",
    "Settings",
    "Submission",
    "command",
    "resolve",
]
