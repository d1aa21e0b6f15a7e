"""The agent renews its own secret, now and then and when asked, and can be killed between any two steps.

1. The new secret is written beside the old one. 2. The server is told its digest: both are good.
3. The new one is used: the server ends the old one. 4. The new file takes the place of the old one.
After a kill the file beside says that a change is under way, and it is gone through again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import string
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from rainbow_sched.agent.setup.options import SECRET_ENV, SECRET_FILE, AgentOptions
from rainbow_sched.client.private_files import check_private, sync_folder, write_whole
from rainbow_sched.client.settings import read_secret
from rainbow_sched.model.credential import CredentialKind, compose, digest, id_of
from rainbow_sched.model.errors import AlreadyExists, RainbowError, Unauthenticated

log = logging.getLogger("rainbow.agent")
LOOK_EVERY = 3_600.0  # seconds between two looks at the secret's age
TRY_AGAIN = 30.0
_LETTERS = string.ascii_lowercase + string.digits


class Renewing(Protocol):
    """What the rotation needs of the link."""

    secret: str
    spare: str
    asked: asyncio.Event

    async def renew(self, bearer: str, id: str, digest: bytes) -> None:
        """Tell the server of a secret, speaking with `bearer`."""


class Rotation:
    """One secret in one file, and the one that takes its place."""

    def __init__(self, home: Path, link: Renewing, *, every: float, clock: Callable[[], float] = time.time) -> None:
        self.home, self.beside = home, home.with_name(f"{home.name}.next")
        self._link, self._every, self._clock = link, every, clock
        self._wanted = self.beside.exists()
        if self._wanted:
            check_private(self.beside)
            link.spare = read_secret(str(self.beside), "the cluster's next secret")

    async def run(self) -> None:
        """Until cancelled: renew when it is time or asked for; what fails is tried again, the old one stays in use."""
        failures = 0
        while True:
            try:
                if self._wanted or self._link.asked.is_set() or self._age() >= self._every:
                    self._link.asked.clear()
                    await self.renew()
                failures = 0
            except (RainbowError, OSError) as problem:
                log.warning("the secret cannot be renewed now: %s", problem)
                failures += 1
            pause = min(LOOK_EVERY, TRY_AGAIN * 2**failures if failures else self._every)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._link.asked.wait(), pause)

    async def renew(self) -> None:
        """Go through the change, from wherever an earlier one was left."""
        self._wanted = True
        text = self._next()
        id, old = id_of(text) or "", self._link.secret
        self._link.spare = text
        try:
            await self._link.renew(text, id, digest(text))
        except Unauthenticated:  # the usual case: the server has not heard of it yet
            try:
                await self._link.renew(old, id, digest(text))
            except AlreadyExists:  # it was revoked meanwhile, or the id is somebody's: take another one next time
                self.beside.unlink()
                raise
            await self._link.renew(text, id, digest(text))
        self.beside.replace(self.home)
        sync_folder(self.home.parent)
        self._link.secret, self._link.spare, self._wanted = text, "", False
        log.info("the cluster's secret was renewed, in %s", self.home)

    def _next(self) -> str:
        """The secret that is to come: the one that was written down before, else a new one, safe on disk."""
        if self.beside.exists():
            return read_secret(str(self.beside), "the cluster's next secret")
        id = "".join(secrets.choice(_LETTERS) for _ in range(12))
        text = compose(CredentialKind.AGENT, id, secrets.token_urlsafe(32))
        write_whole(self.beside, f"{text}\n".encode())
        return text

    def _age(self) -> float:
        return self._clock() - self.home.stat().st_mtime


def rotation_of(options: AgentOptions, environment: Mapping[str, str], link: Renewing) -> Rotation | None:
    """The rotation of an agent's secret; None if it is not the agent's own: from the environment or the config file."""
    if options.secret_file:
        home = Path(options.secret_file).resolve()
    elif environment.get(SECRET_ENV):
        return None
    else:
        home = options.state_dir / SECRET_FILE
    return Rotation(home, link, every=options.renew_every) if options.renew_every > 0 and home.exists() else None
