"""The agent's only way out: the Sync call, over a list of servers, with its deadline and its identity."""

from __future__ import annotations

from dataclasses import dataclass, field

from rainbow import __version__
from rainbow.agent.events import SyncAnswer, SyncMessage
from rainbow.agent.wire import sync_answer, sync_request
from rainbow.client import rpcs
from rainbow.client.connection import Connection, Patience
from rainbow.client.settings import Settings

MARGIN = 10.0  # seconds beyond the wait that was asked for
PATIENCE = Patience(connect=5.0, unreachable=0.0)  # every server once; the agent itself decides when to try again


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who speaks."""

    cluster: str
    epoch: str  # random, made at the process's start
    secret: str = field(repr=False)
    manager: str = ""
    accept_only: str = ""


class Link:
    """Sends messages; every failure is one of `model/errors.py`."""

    def __init__(self, settings: Settings, identity: Identity) -> None:
        self.identity = identity
        self._connection = Connection(settings, patience=PATIENCE)

    async def sync(self, message: SyncMessage) -> SyncAnswer:
        """Send one message and wait for its answer."""
        request = sync_request(message)
        request.cluster, request.epoch = self.identity.cluster, self.identity.epoch
        request.manager, request.version = self.identity.manager, __version__
        request.accept_only = self.identity.accept_only
        answer = await self._connection.call(
            rpcs.SYNC, request, bearer=self.identity.secret, timeout=message.wait + MARGIN
        )
        return sync_answer(answer)

    async def close(self) -> None:
        """Hang up."""
        await self._connection.close()
