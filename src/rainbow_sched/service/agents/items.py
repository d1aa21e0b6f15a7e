"""Carry out the items of one Sync: together, or each in a savepoint of its own, so that one can fail alone."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Protocol, TypeVar

from rainbow_sched.model.errors import RainbowError, Unavailable
from rainbow_sched.service.agents.sync_messages import AgentReply
from rainbow_sched.service.effects import Effects
from rainbow_sched.store.base import Tx

log = logging.getLogger(__name__)
T = TypeVar("T", Effects, AgentReply)


class Items(Protocol):
    """Carries out one item after the other."""

    def each(self, tx: Tx, fx: Effects, out: AgentReply, what: str, do: Callable[[], object]) -> bool:
        """Carry out one item; False if it failed and left nothing behind."""


class Together:
    """All or nothing: what an item raises undoes the transaction. This costs nothing while nothing fails."""

    def each(self, tx: Tx, fx: Effects, out: AgentReply, what: str, do: Callable[[], object]) -> bool:
        """Carry out one item."""
        do()
        return True


@dataclass(frozen=True, slots=True)
class Separately:
    """Each item in a savepoint: what it raises undoes this item only, and is written to the log."""

    cluster: str

    def each(self, tx: Tx, fx: Effects, out: AgentReply, what: str, do: Callable[[], object]) -> bool:
        """Carry out one item; False if it failed."""
        effects, answer = _copied(fx), _copied(out)
        try:
            with tx.savepoint():
                do()
        except Unavailable:
            raise
        except Exception as problem:  # a fault of ours, too, concerns one item and not what else the agent says
            _restore(fx, effects)
            _restore(out, answer)
            unforeseen = not isinstance(problem, RainbowError)
            log.warning("%s from %s is left out: %s", what, self.cluster, problem, exc_info=unforeseen)
            return False
        return True


def _copied(value: T) -> T:
    """A copy whose lists and sets are its own."""
    return type(value)(**{field.name: copy.copy(getattr(value, field.name)) for field in fields(value)})


def _restore(value: T, before: T) -> None:
    for field in fields(value):
        setattr(value, field.name, getattr(before, field.name))
