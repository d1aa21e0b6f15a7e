"""Who did what: the acting caller of a call, its lines in the audit log, and refusals, which are counted.

A change writes its line inside its own transaction, so neither exists without the other. The
store runs work in a thread of its own, where no call is current: a use case asks `acting()`
before it writes and calls `note` inside. Refusals have no transaction; they are gathered,
equal ones are counted, and the gate's keeper writes them about once a second.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextvars import ContextVar
from dataclasses import dataclass

from rainbow_sched.model.credential import CredentialKind, Principal
from rainbow_sched.model.errors import Unauthenticated
from rainbow_sched.store.base import Tx

ANONYMOUS = Principal(name="anonymous")
SYSTEM = Principal(
    name="server", kind=CredentialKind.ADMIN, scopes=frozenset({"admin"})
)  # no call has it: see the gate
MOST_OBJECT = 200
MOST_DETAIL = 500
LINES_PER_ADDRESS = 10  # different refusals of one address that are told apart in one flush
MOST_ADDRESSES = 1_000


@dataclass(frozen=True, slots=True)
class Actor:
    """The caller of this call, and the address they call from."""

    principal: Principal
    address: str = ""

    def note(self, tx: Tx, verb: str, object: str, at: float, detail: str = "") -> None:
        """Write that the caller did this; call it inside the transaction that does it."""
        who = self.principal
        tx.append_audit(
            at, who.name, who.credential, self.address, verb, object[:MOST_OBJECT], "done", detail[:MOST_DETAIL]
        )

    def spend(self, tx: Tx) -> None:
        """Use up a credential that serves once; a second use at the same moment is refused."""
        if self.principal.kind is CredentialKind.JOIN and not tx.spend_credential(self.principal.credential):
            raise Unauthenticated("the credential is unknown, expired or revoked")


_SERVER = Actor(SYSTEM)
_acting: ContextVar[Actor] = ContextVar("acting", default=_SERVER)


def acting() -> Actor:
    """Who is calling; the server itself outside of calls."""
    return _acting.get()


def act_as(principal: Principal, address: str) -> None:
    """Name the caller for the rest of this call."""
    _acting.set(Actor(principal, address))


def note_submitted(tx: Tx, made: Iterable[tuple[Actor, list[int]]], at: float) -> None:
    """One line for all jobs that one caller submitted in one write, however many calls that were."""
    gathered: dict[tuple[str, str, str], tuple[Actor, list[int]]] = {}
    for by, ids in made:
        who = by.principal
        gathered.setdefault((who.name, who.credential, by.address), (by, []))[1].extend(ids)
    for by, ids in gathered.values():
        if ids:
            by.note(tx, "job.submit", ranges(ids), at, f"jobs: {len(ids)}")


def ranges(ids: Iterable[int]) -> str:
    """Job ids in few letters: `3-9,12`."""
    parts: list[list[int]] = []
    for id in sorted(ids):
        if parts and id == parts[-1][1] + 1:
            parts[-1][1] = id
        else:
            parts.append([id, id])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)


@dataclass(frozen=True, slots=True)
class RefusedCall:
    """One kind of refused call."""

    address: str
    actor: str
    credential: str
    method: str
    object: str
    code: str


class RefusedCallCounter:
    """Gathers refused calls until they are written; a flood from one address becomes a few lines with counts."""

    def __init__(self) -> None:
        self._counts: Counter[RefusedCall] = Counter()
        self._kinds: Counter[str] = Counter()

    def add(self, refusal: RefusedCall) -> None:
        """Count one."""
        if refusal not in self._counts:
            if self._kinds[refusal.address] >= LINES_PER_ADDRESS or len(self._kinds) > MOST_ADDRESSES:
                crowded = len(self._kinds) > MOST_ADDRESSES
                refusal = RefusedCall("" if crowded else refusal.address, "", "", "various", "", refusal.code)
            if refusal not in self._counts:
                self._kinds[refusal.address] += 1
        self._counts[refusal] += 1

    def take(self) -> list[tuple[RefusedCall, int]]:
        """What was gathered; it is empty afterwards."""
        taken = list(self._counts.items())
        self._counts, self._kinds = Counter(), Counter()
        return taken


def write_refusals(tx: Tx, taken: list[tuple[RefusedCall, int]], at: float) -> None:
    """One line for each kind of refusal, with how often it happened."""
    for refusal, times in taken:
        tx.append_audit(
            at,
            refusal.actor,
            refusal.credential,
            refusal.address,
            refusal.method,
            refusal.object[:MOST_OBJECT],
            refusal.code,
            f"{times} times" if times > 1 else "",
        )
