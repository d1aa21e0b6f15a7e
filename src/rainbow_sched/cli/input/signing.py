"""`--sign`: the job as it is sent, with its owner's signature."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from rainbow_sched.cli.input.job_options import Asked
from rainbow_sched.cli.input.job_request import Prepared
from rainbow_sched.client.submission import JobSubmission
from rainbow_sched.jobspecs import canonical
from rainbow_sched.model.errors import Invalid

if TYPE_CHECKING:
    from rainbow_sched.client import AsyncClient

Signer: TypeAlias = "Callable[[AsyncClient, Prepared], Awaitable[JobSubmission]]"


def signer_of(asked: Asked, environment: Mapping[str, str]) -> Signer | None:
    """What signs the job; None: nobody asked for it. A key that cannot be used is said before anything is sent."""
    if not asked.sign:
        if asked.key:
            raise Invalid("--key goes with --sign")
        return None
    from rainbow_sched.client.signing import key_path, load_key, signed

    key = load_key(Path(asked.key).expanduser() if asked.key else key_path(environment))

    async def sign(client: AsyncClient, prepared: Prepared) -> JobSubmission:
        """The server says whose job it will be; were it to lie, the site would not find the key under that name."""
        owner = (await client.who_am_i()).name
        exact = replace(prepared.submission, canonical=canonical.to_json(prepared.request), text="", dialect="")
        return signed(exact, key, owner, time.time())

    return sign
