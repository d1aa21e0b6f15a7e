"""The Python SDK: `Client` and `AsyncClient` with the same verbs, job handles, and an `Executor` for commands."""

from rainbow_sched.client.async_client import AsyncClient, AsyncJobHandle, JobFailed, JobResult
from rainbow_sched.client.blocking_client import Client, JobHandle
from rainbow_sched.client.codec import JobFilter
from rainbow_sched.client.executor import Executor
from rainbow_sched.client.settings import Settings, resolve
from rainbow_sched.client.submission import Submission, command

__all__ = [
    "AsyncClient",
    "AsyncJobHandle",
    "Client",
    "Executor",
    "JobFailed",
    "JobFilter",
    "JobHandle",
    "JobResult",
    "Settings",
    "Submission",
    "command",
    "resolve",
]
