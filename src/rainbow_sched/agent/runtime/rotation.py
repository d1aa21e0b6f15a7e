"""Rotation of the agent's secret, periodically and on the server's request. A crash at any step is safe.

1. Write the new secret beside the old one. 2. Register its digest with the server: both are valid.
3. Use the new one: the server revokes the old one. 4. Move the new file over the old one.
After a crash the file beside the old one shows that a rotation is incomplete, and it is repeated.
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

from rainbow_sched.agent.options import SECRET_ENV, SECRET_FILE, AgentOptions
from rainbow_sched.agent.runtime.link import ServerLink
from rainbow_sched.client.private_files import check_private, sync_folder, write_whole
from rainbow_sched.client.settings import read_secret
from rainbow_sched.model.credential import CredentialKind, compose, digest, id_of
from rainbow_sched.model.errors import AlreadyExists, RainbowError, Unauthenticated

log = logging.getLogger("rainbow.agent")
AGE_CHECK_SECONDS = 3_600.0  # seconds between checks of the secret's age
RETRY_SECONDS = 30.0  # doubled with each failure in a row, up to AGE_CHECK_SECONDS
_LETTERS = string.ascii_lowercase + string.digits


class Rotation:
    """Rotation of the secret in one file."""

    def __init__(self, home: Path, link: ServerLink, *, every: float, clock: Callable[[], float] = time.time) -> None:
        self.home, self.beside = home, home.with_name(f"{home.name}.next")
        self._link, self._every, self._clock = link, every, clock
        self._pending = self.beside.exists()
        if self._pending:
            check_private(self.beside)
            link.spare = read_secret(str(self.beside), "the cluster's next secret")

    async def run(self) -> None:
        """Rotate when due or requested, until cancelled; a failure is retried and the old secret stays in use."""
        failures = 0
        while True:
            try:
                if self._pending or self._link.renewal_requested.is_set() or self._age() >= self._every:
                    self._link.renewal_requested.clear()
                    await self.renew()
                failures = 0
            except (RainbowError, OSError) as problem:
                log.warning("the secret could not be renewed, retrying: %s", problem)
                failures += 1
            pause = min(AGE_CHECK_SECONDS, RETRY_SECONDS * 2**failures if failures else self._every)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._link.renewal_requested.wait(), pause)

    async def renew(self) -> None:
        """Rotate the secret, continuing an earlier incomplete rotation."""
        self._pending = True
        text = self._next()
        id, old = id_of(text) or "", self._link.secret
        self._link.spare = text
        try:
            await self._link.renew(text, id, digest(text))
        except Unauthenticated:  # the normal case: the server does not have the new secret yet
            try:
                await self._link.renew(old, id, digest(text))
            except AlreadyExists:  # revoked meanwhile, or the id is taken: use a new one next time
                self.beside.unlink()
                raise
            await self._link.renew(text, id, digest(text))
        self.beside.replace(self.home)
        sync_folder(self.home.parent)
        self._link.secret, self._link.spare, self._pending = text, "", False
        log.info("renewed the cluster's secret in %s", self.home)

    def _next(self) -> str:
        """Return the next secret: the one of an incomplete rotation, or a new one, written to disk."""
        if self.beside.exists():
            return read_secret(str(self.beside), "the cluster's next secret")
        id = "".join(secrets.choice(_LETTERS) for _ in range(12))
        text = compose(CredentialKind.AGENT, id, secrets.token_urlsafe(32))
        write_whole(self.beside, f"{text}\n".encode())
        return text

    def _age(self) -> float:
        return self._clock() - self.home.stat().st_mtime


def rotation_of(options: AgentOptions, environment: Mapping[str, str], link: ServerLink) -> Rotation | None:
    """Return the rotation of the agent's secret; None if it comes from the environment or the config file."""
    if options.secret_file:
        home = Path(options.secret_file).resolve()
    elif environment.get(SECRET_ENV):
        return None
    else:
        home = options.state_dir / SECRET_FILE
    return Rotation(home, link, every=options.renew_every) if options.renew_every > 0 and home.exists() else None
