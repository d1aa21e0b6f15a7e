"""Who is calling, and which jobs they may see: credentials to principals, principals to reach."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass

from rainbow.model.credential import Credential, Kind, Principal, digest, id_of
from rainbow.model.errors import Denied, Unauthenticated
from rainbow.store.base import Store, Tx

ANONYMOUS = Principal(name="anonymous")
_NOBODY = digest("nobody has this credential")
REGISTRATION_META = "registration.digest"


class Recogniser:
    """Turns the text of a credential into a principal. What it learned holds for a second, or until `forget`."""

    def __init__(self, store: Store, registration: bytes | None = None) -> None:
        self._store = store
        self._registration = registration
        self._known: dict[bytes, tuple[float, Principal, Credential]] = {}

    def forget(self) -> None:
        """Look every credential up again: one was revoked, rotated or changed."""
        self._known.clear()

    async def recognise(self, text: str, now: float) -> Principal:
        """Name the caller; raise Unauthenticated without saying why."""
        key = digest(text)
        known = self._known.get(key)
        if known is not None and now - known[0] < 1.0 and known[2].live(now):
            return known[1]
        if self._registration is not None and key == self._registration:
            return Principal(name="registrant", kind=Kind.REGISTRATION, scopes=frozenset({"register:*"}))
        id = id_of(text)
        stored = await self._store.read(lambda tx: tx.credential(id or "000000000000"))
        good = stored is not None and stored.matches(text)
        if stored is None or not good or not stored.live(now):
            raise Unauthenticated("the credential is unknown, expired or revoked")
        principal = principal_of(stored)
        if len(self._known) > 10_000:
            self._known.clear()
        self._known[key] = (now, principal, stored)
        return principal


def principal_of(credential: Credential) -> Principal:
    """The caller that a live credential stands for."""
    return Principal(
        name=credential.owner, kind=credential.kind, credential=credential.id, scopes=frozenset(credential.scopes)
    )


def may(principal: Principal, verb: str, name: str) -> bool:
    """True if a scope `verb:PATTERN` of the principal covers `name`."""
    if principal.admin:
        return True
    for scope in principal.scopes:
        kind, _, pattern = scope.partition(":")
        if kind == verb and (pattern == name or fnmatch.fnmatchcase(name, pattern)):
            return True
    return False


def need(principal: Principal, verb: str, name: str) -> None:
    """Raise unless a scope covers it. Who may not is told the same whether `name` exists or not."""
    if principal.kind is None:
        raise Unauthenticated("this call needs a credential: set RAINBOW_TOKEN, or token in the configuration file")
    if not may(principal, verb, name):
        raise Denied(f"your credential does not open {verb} on {name!r}")


@dataclass(frozen=True, slots=True)
class Reach:
    """Which jobs a principal may read or cancel: all, or those of these owners, or those on these clusters."""

    everything: bool = False
    owner: str = ""
    clusters: tuple[str, ...] = ()  # an agent's: the jobs given to it

    def covers(self, owner: str, cluster: str) -> bool:
        """True if a job of this owner on this cluster is within reach."""
        return self.everything or owner == self.owner or cluster in self.clusters


def reach(principal: Principal, verb: str) -> Reach:
    """How far `verb` (read or cancel) of a principal goes over jobs."""
    if principal.kind is None:
        raise Unauthenticated("this call needs a credential: set RAINBOW_TOKEN, or token in the configuration file")
    if principal.admin or f"job:{verb}:all" in principal.scopes:
        return Reach(everything=True)
    clusters: tuple[str, ...] = ()
    if verb == "read":
        clusters = tuple(sorted(s.partition(":")[2] for s in principal.scopes if s.startswith("agent:")))
    return Reach(owner=principal.name, clusters=clusters)


def cluster_scopes(name: str) -> dict[Kind, tuple[str, ...]]:
    """The scopes of the two credentials that a cluster gets when it registers."""
    return {
        Kind.SUBMIT: (f"submit:{name}", "job:read:own", "job:cancel:own"),
        Kind.AGENT: (f"agent:{name}",),
    }


def revoke_cluster(tx: Tx, name: str, now: float) -> None:
    """End every credential that a cluster was given."""
    tx.revoke_of(f"cluster:{name}", now)
    tx.revoke_of(f"submitter:{name}", now)
