"""Audit log: the caller of the current call, its audit lines, and counted refusals.

A change writes its line inside its own transaction. The store runs work in another thread, where no
call is current, so a use case calls `acting()` before it writes and `note` inside. Refusals have no
transaction: equal ones are counted and written about once a second.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import NamedTuple

from rainbow_sched.model.credential import CredentialKind, Principal
from rainbow_sched.model.errors import Unauthenticated
from rainbow_sched.model.ranges import format_ranges
from rainbow_sched.store.base import Tx

ANONYMOUS = Principal(name="anonymous")
SYSTEM = Principal(name="server", kind=CredentialKind.ADMIN, scopes=frozenset({"admin"}))  # no caller can have it
MAX_OBJECT_CHARS = 200  # bounds the size of a line of the audit log
MAX_DETAIL_CHARS = 500  # bounds the size of a line of the audit log
MAX_LINES_PER_ADDRESS = 10  # different refusals per address and flush
MAX_ADDRESSES = 1_000  # bounds the memory between two flushes; refusals of further addresses are counted together


class Actor(NamedTuple):
    """The caller of the current call, and its address."""

    principal: Principal
    address: str = ""

    def note(self, tx: Tx, verb: str, object: str, at: float, detail: str = "") -> None:
        """Write an audit line; call it inside the transaction of the change."""
        who = self.principal
        tx.append_audit(
            at,
            who.name,
            who.credential,
            self.address,
            verb,
            object[:MAX_OBJECT_CHARS],
            "done",
            detail[:MAX_DETAIL_CHARS],
        )

    def spend(self, tx: Tx) -> None:
        """Use up a one-time credential; a second use at the same time is refused."""
        if self.principal.kind is CredentialKind.JOIN and not tx.spend_credential(self.principal.credential):
            raise Unauthenticated("the credential is unknown, expired or revoked")


_SERVER = Actor(SYSTEM)
_acting: ContextVar[Actor] = ContextVar("acting", default=_SERVER)


def acting() -> Actor:
    """Return the caller of this call; outside of calls, the server itself."""
    return _acting.get()


def act_as(principal: Principal, address: str) -> None:
    """Set the caller for the rest of this call."""
    _acting.set(Actor(principal, address))


def note_submitted(tx: Tx, made: Iterable[tuple[Actor, list[int]]], at: float) -> None:
    """Write one line for all jobs that a caller submitted in one write."""
    gathered: dict[tuple[str, str, str], tuple[Actor, list[int]]] = {}
    for by, ids in made:
        who = by.principal
        gathered.setdefault((who.name, who.credential, by.address), (by, []))[1].extend(ids)
    for by, ids in gathered.values():
        if ids:
            by.note(tx, "job.submit", format_ranges(ids), at, f"jobs: {len(ids)}")


@dataclass(frozen=True, slots=True)
class RefusedCall:
    """A kind of refused call."""

    address: str
    actor: str
    credential: str
    method: str
    object: str
    code: str


class RefusedCallCounter:
    """Counts refused calls until they are written; many from one address become a few lines."""

    def __init__(self) -> None:
        self._counts: Counter[RefusedCall] = Counter()
        self._kinds: Counter[str] = Counter()

    def add(self, refusal: RefusedCall) -> None:
        if refusal not in self._counts:
            if self._kinds[refusal.address] >= MAX_LINES_PER_ADDRESS or len(self._kinds) > MAX_ADDRESSES:
                crowded = len(self._kinds) > MAX_ADDRESSES
                refusal = RefusedCall("" if crowded else refusal.address, "", "", "various", "", refusal.code)
            if refusal not in self._counts:
                self._kinds[refusal.address] += 1
        self._counts[refusal] += 1

    def take(self) -> list[tuple[RefusedCall, int]]:
        """Return the counts and reset them."""
        taken = list(self._counts.items())
        self._counts, self._kinds = Counter(), Counter()
        return taken


def write_refusals(tx: Tx, taken: list[tuple[RefusedCall, int]], at: float) -> None:
    """Write one line with a count for each kind of refused call."""
    for refusal, times in taken:
        tx.append_audit(
            at,
            refusal.actor,
            refusal.credential,
            refusal.address,
            refusal.method,
            refusal.object[:MAX_OBJECT_CHARS],
            refusal.code,
            f"{times} times" if times > 1 else "",
        )
