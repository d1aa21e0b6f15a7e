"""Apply the items of one Sync message: all or nothing, or each in a savepoint so that it can fail alone."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TypeVar

from rainbow_sched.model.errors import RainbowError, Unavailable
from rainbow_sched.service.agents.answer_draft import AnswerDraft
from rainbow_sched.service.effects import Effects
from rainbow_sched.store.base import Tx

log = logging.getLogger(__name__)
T = TypeVar("T", Effects, AnswerDraft)


@dataclass(frozen=True, slots=True)
class ItemRunner:
    """Applies the items of a message one by one.

    All or nothing at first: an error undoes the transaction, which costs nothing while nothing fails. `isolated`: each
    item is in a savepoint, and an error undoes and logs this item only.
    """

    cluster: str
    isolated: bool = False

    def run(self, tx: Tx, fx: Effects, out: AnswerDraft, what: str, action: Callable[[], object]) -> bool:
        """Apply one item; return False if it failed and was undone."""
        if not self.isolated:
            action()
            return True
        effects, answer = _copy(fx), _copy(out)
        try:
            with tx.savepoint():
                action()
        except Unavailable:
            raise
        except Exception as error:  # even an internal error fails this item only
            _restore(fx, effects)
            _restore(out, answer)
            unexpected = not isinstance(error, RainbowError)
            log.warning("%s from %s is ignored: %s", what, self.cluster, error, exc_info=unexpected)
            return False
        return True


def _copy(value: T) -> T:
    """Return a copy with its own lists and sets."""
    return type(value)(**{field.name: copy.copy(getattr(value, field.name)) for field in fields(value)})


def _restore(value: T, before: T) -> None:
    for field in fields(value):
        setattr(value, field.name, getattr(before, field.name))
