"""The answer to a Sync message while its transaction runs, and how the items of the message are applied.

All or nothing at first; if that fails, each item in a savepoint, so that it can fail alone.
"""

from __future__ import annotations

import copy
import json
import logging
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, fields
from typing import TypeVar

from rainbow_sched.jobspecs.reading.counts import array_index
from rainbow_sched.model.attempt import Attempt
from rainbow_sched.model.binding import GroupHosts
from rainbow_sched.model.errors import RainbowError, Unavailable
from rainbow_sched.model.job import Job
from rainbow_sched.protocol.messages import AllowedHosts, AttemptRef, Offer, ServerCommand, SyncAnswer, SyncRequest
from rainbow_sched.service.core import Core
from rainbow_sched.service.effects import Effects
from rainbow_sched.store.base import Command, Tx

log = logging.getLogger(__name__)
NOT_LIVE = "the server does not know it as live"


@dataclass(slots=True)
class AnswerDraft:
    """What is collected for an agent; an item that fails is undone by restoring a copy."""

    confirms: list[AttemptRef] = field(default_factory=list)
    offers: list[Offer] = field(default_factory=list)
    commands: list[ServerCommand] = field(default_factory=list)
    kills: list[AttemptRef] = field(default_factory=list)
    acked: list[AttemptRef] = field(default_factory=list)
    unknown: list[AttemptRef] = field(default_factory=list)  # their reports were stored as text
    output_acks: list[tuple[AttemptRef, str, int]] = field(default_factory=list)
    expected: list[AttemptRef] = field(default_factory=list)
    resync: bool = False

    def has_content(self) -> bool:
        """Return True if there is a reason to answer at once."""
        return self != AnswerDraft()

    def answer(self, seq: int, server: str, mark: str) -> SyncAnswer:
        """Return the answer to message `seq`, without what is added when it is sent."""
        return SyncAnswer(
            ack=seq,
            confirms=tuple(self.confirms),
            offers=tuple(self.offers),
            commands=(*self.commands, *(ServerCommand(0, "kill", ref, NOT_LIVE) for ref in self.kills)),
            resync=self.resync,
            expected=tuple(self.expected),
            acked=tuple(self.acked),
            output_acks=tuple(self.output_acks),
            unknown=tuple(self.unknown),
            server=server,
            mark=mark,
        )


def ref_of(attempt: Attempt) -> AttemptRef:
    return AttemptRef(attempt.job, attempt.n, attempt.token)


def commands_of(commands: Iterable[Command]) -> list[ServerCommand]:
    return [ServerCommand(each.id, each.kind, AttemptRef(each.job, each.n, each.token)) for each in commands]


def offer_of(attempt: Attempt, job: Job, now: float, hosts: tuple[GroupHosts, ...] | None = None) -> Offer:
    """Return the offer of a job; `hosts`: where it may run, for an agent, or None for a receiver."""
    return Offer(
        ref=ref_of(attempt),
        name=job.name,
        owner=job.owner,
        spec=job.spec,
        terms=json.dumps(asdict(job.terms)),
        lease=max(0.0, (attempt.lease_until or now) - now),
        priority=job.terms.priority,
        array_index=array_index(job.terms.labels),
        allowed=AllowedHosts(hosts or (), checked=hosts is not None),
    )


@dataclass(frozen=True, slots=True)
class SyncTransaction:
    """A Sync message being applied: its transaction, what follows the commit, and the answer that is collected.

    All or nothing at first: an error undoes the transaction, which costs nothing while nothing fails. `isolated`: each
    item of the message is in a savepoint, and an error undoes and logs this item only.
    """

    core: Core
    request: SyncRequest
    tx: Tx
    fx: Effects
    now: float
    out: AnswerDraft = field(default_factory=AnswerDraft)
    isolated: bool = False

    def run(self, what: str, action: Callable[[], object]) -> bool:
        """Apply one item; return False if it failed and was undone."""
        if not self.isolated:
            action()
            return True
        effects, answer = _copy(self.fx), _copy(self.out)
        try:
            with self.tx.savepoint():
                action()
        except Unavailable:
            raise
        except Exception as error:  # even an internal error fails this item only
            _restore(self.fx, effects)
            _restore(self.out, answer)
            unexpected = not isinstance(error, RainbowError)
            log.warning("%s from %s is ignored: %s", what, self.request.cluster, error, exc_info=unexpected)
            return False
        return True


T = TypeVar("T", Effects, AnswerDraft)


def _copy(value: T) -> T:
    """Return a copy with its own lists and sets."""
    return type(value)(**{each.name: copy.copy(getattr(value, each.name)) for each in fields(value)})


def _restore(value: T, before: T) -> None:
    for each in fields(value):
        setattr(value, each.name, getattr(before, each.name))
