"""Authentication and authorization: from credentials to principals, and what a principal may reach.

A call needs the right in both the credential and the account. Cached credentials expire after a
second, so a revocation takes effect within one.
"""

from __future__ import annotations

import fnmatch
import hmac
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from rainbow_sched.model.credential import (
    Credential,
    CredentialKind,
    Principal,
    covers,
    digest,
    expand,
    id_of,
    intersect,
)
from rainbow_sched.model.errors import Denied, Unauthenticated
from rainbow_sched.service.access.audit import ANONYMOUS
from rainbow_sched.store.base import Account, ClusterGroup, Store, Tx

__all__ = ["ANONYMOUS", "CredentialResolver", "Reach", "may", "need", "reach"]

REVISION_META = "access.revision"
CACHE_SECONDS = 1.0  # a revocation takes effect on other servers within this time
MAX_CACHED_CREDENTIALS = 10_000  # bounds the memory of the cache
MAX_CACHED_USERS = 100_000  # bounds the memory of the groups that an identity provider claims
USE_RECORD_SECONDS = 60.0  # between two records of a credential's use
ADMIN = "admin"  # the first administrator
EXTERNAL_CREDENTIAL = "oidc"  # in place of a credential's id
UNKNOWN_ID = "000000000000"
_UNKNOWN_DIGEST = digest("nobody has this credential")
_OWN_JOBS = ("job:read:own", "job:cancel:own")
_PERSONAL_KINDS = (CredentialKind.USER, CredentialKind.ADMIN, CredentialKind.JOIN)
NO_CREDENTIAL = "this call needs a credential: set RAINBOW_TOKEN, or token in the configuration file"
INVALID_CREDENTIAL = "the credential is unknown, expired or revoked"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalIdentity:
    """A user authenticated by an identity provider."""

    name: str
    groups: frozenset[str]
    until: float


# Returns the bearer of a credential; None if it is not from this provider. Raises Unauthenticated if it is invalid.
IdentityProvider: TypeAlias = Callable[[str, float], Awaitable[ExternalIdentity | None]]


class CredentialResolver:
    """Resolves the text of a credential to a principal."""

    def __init__(self, store: Store, registration: bytes) -> None:
        self._store, self._registration = store, registration
        self.identity_provider: IdentityProvider | None = None
        self._cache: dict[bytes, tuple[float, Principal]] = {}  # with the time of the lookup
        self._valid_once: dict[bytes, None] = {}  # credentials that were valid once
        self._unsaved_uses: dict[str, float] = {}  # credential -> last use not stored yet
        self._saved_uses: dict[str, float] = {}
        self._members = GroupMembers()
        self.revision = 0  # grows with each revocation or change in this process

    def forget(self) -> None:
        """Clear the cache after a credential was revoked, rotated or changed."""
        self._cache.clear()
        self.revision += 1

    def cached(self, text: str, now: float) -> Principal | None:
        """Return the principal if the credential was looked up within the last second."""
        at, principal = self._cache.get(digest(text)) or (0.0, None)
        if principal is None or not 0 <= now - at < CACHE_SECONDS:
            return None
        return principal if principal.until is None or now < principal.until else None

    def was_valid(self, text: str) -> bool:
        """Return True if the credential was valid once since the start."""
        return digest(text) in self._valid_once

    async def resolve(self, text: str, now: float) -> Principal:
        """Return the principal; raise Unauthenticated without a reason."""
        return self.cached(text, now) or await self._look_up(text, now)

    async def _look_up(self, text: str, now: float) -> Principal:
        key = digest(text)
        if hmac.compare_digest(key, self._registration):
            return Principal(name="registrant", kind=CredentialKind.REGISTRATION, scopes=frozenset({"register:*"}))
        identity = await self.identity_provider(text, now) if self.identity_provider is not None else None
        if identity is not None:
            principal = await self._store.read(lambda tx: _external_principal(tx, identity, self._members))
        else:
            id = id_of(text) or UNKNOWN_ID
            principal = await self._store.read(lambda tx: _principal(tx, id, key, now, self._members))
        if principal is None:
            raise Unauthenticated(INVALID_CREDENTIAL)
        if principal.kind is not CredentialKind.JOIN:
            if len(self._cache) >= MAX_CACHED_CREDENTIALS:
                self._cache.clear()
            self._cache[key] = now, principal
            self._valid_once[key] = None
            if len(self._valid_once) > 10 * MAX_CACHED_CREDENTIALS:
                del self._valid_once[next(iter(self._valid_once))]
        if identity is None and now - self._saved_uses.get(principal.credential, 0.0) >= USE_RECORD_SECONDS:
            self._unsaved_uses[principal.credential] = now
        return principal

    def take_uses(self) -> dict[str, float]:
        """Return the credentials used and when, to be stored; each use is returned once."""
        taken, self._unsaved_uses = self._unsaved_uses, {}
        if len(self._saved_uses) > MAX_CACHED_CREDENTIALS:
            self._saved_uses.clear()
        self._saved_uses.update(taken)
        return taken


class GroupMembers:
    """Cache of the members of groups, reloaded when rights change."""

    def __init__(self) -> None:
        self._cached: tuple[int, dict[str, set[str]]] = (-1, {})

    def of(self, tx: Tx, groups: Iterable[str]) -> frozenset[str]:
        """Return the users in any of these groups."""
        now = revision(tx)
        if self._cached[0] != now:
            found: dict[str, set[str]] = {}
            for user in tx.users():
                for group in user.groups:
                    found.setdefault(group, set()).add(user.name)
            self._cached = (now, found)
        return frozenset().union(*(self._cached[1].get(group, ()) for group in groups))


def _principal(tx: Tx, id: str, key: bytes, now: float, members: GroupMembers) -> Principal | None:
    """Return the principal of a usable credential, or None, with equal steps for unknown ones.

    It has the rights that the credential and its owner share.
    """
    credential = tx.credential(id)
    if not has_digest(credential, key) or credential is None or not credential.usable(now):
        return None
    scopes, groups = _expanded(tx, credential.scopes), tuple[str, ...]()
    if credential.kind in _PERSONAL_KINDS:
        account = tx.user(credential.owner)
        if account is None and credential.owner != ADMIN:  # the first administrator may have no account yet
            return None
        if account is not None:
            if account.disabled:
                return None
            groups = account.groups
            scopes = intersect(scopes, _expanded(tx, rights_of(account.rights, tx.groups(groups))))
    return Principal(
        name=credential.owner,
        kind=credential.kind,
        credential=credential.id,
        scopes=scopes,
        groups=frozenset(groups),
        group_members=_group_members(tx, scopes, groups, members),
        until=credential.until,
        renew=credential.renewal_asked,
    )


def has_digest(stored: Credential | None, key: bytes) -> bool:
    """Return True if `key` is the digest of the credential; takes the same time for all, also for an unknown one."""
    return hmac.compare_digest(stored.digest if stored else _UNKNOWN_DIGEST, key)


def _external_principal(tx: Tx, identity: ExternalIdentity, members: GroupMembers) -> Principal | None:
    """Return the principal of an external identity: the rights of its account, if any, and of its groups."""
    account = tx.user(identity.name) or Account(name=identity.name)
    if account.disabled:
        return None
    groups = identity.groups | set(account.groups)
    scopes = _expanded(tx, rights_of(account.rights, tx.groups(groups)))
    return Principal(
        name=identity.name,
        kind=CredentialKind.USER,
        credential=EXTERNAL_CREDENTIAL,
        scopes=scopes,
        groups=groups,
        group_members=_group_members(tx, scopes, tuple(groups), members),
        until=identity.until,
    )


def _expanded(tx: Tx, scopes: Iterable[str]) -> frozenset[str]:
    """Replace each `VERB:@GROUP` by the clusters of that group."""
    named = {scope.partition(":@")[2] for scope in scopes} - {""}
    return expand(scopes, {group.name: group.clusters for group in tx.groups(named)})


def _group_members(tx: Tx, scopes: frozenset[str], groups: tuple[str, ...], members: GroupMembers) -> frozenset[str]:
    if not groups or not any(scope.endswith(":group") for scope in scopes):
        return frozenset()
    return members.of(tx, groups)


def rights_of(own: Iterable[str], groups: Iterable[ClusterGroup]) -> frozenset[str]:
    """Return the rights of a user: its own, those of its groups, and access to its own jobs."""
    return frozenset(_OWN_JOBS).union(own, *(group.rights for group in groups))


def changed(tx: Tx) -> None:
    """Make all servers on this database check open streams again: rights changed."""
    tx.set_meta(REVISION_META, str(revision(tx) + 1))


def revision(tx: Tx) -> int:
    """Return how often rights changed."""
    return int(tx.meta(REVISION_META) or 0)


def may(principal: Principal, verb: str, name: str) -> bool:
    """Return True if a scope `verb:PATTERN` of the principal covers `name`."""
    if principal.admin:
        return True
    for scope in principal.scopes:
        kind, _, pattern = scope.partition(":")
        if kind == verb and (pattern == name or fnmatch.fnmatchcase(name, pattern)):
            return True
    return False


def need(principal: Principal, verb: str, name: str) -> None:
    """Raise unless a scope covers `name`; the error does not reveal whether it exists."""
    if principal.kind is None:
        raise Unauthenticated(NO_CREDENTIAL)
    if not may(principal, verb, name):
        raise Denied(f"your credential does not allow {verb} on {name[:128]!r}")


def within(principal: Principal, scopes: tuple[str, ...]) -> bool:
    """Return True if the principal holds all of `scopes`."""
    return all(any(covers(own, scope) for own in principal.scopes) for scope in scopes)


@dataclass(frozen=True, slots=True)
class Reach:
    """Jobs that a principal may read or cancel: all, those of some owners, or those on some clusters."""

    everything: bool = False
    owners: frozenset[str] = frozenset()
    clusters: tuple[str, ...] = ()  # an agent's: the jobs given to it

    def covers(self, owner: str, cluster: str) -> bool:
        """Return True if a job of this owner on this cluster is within reach."""
        return self.everything or owner in self.owners or cluster in self.clusters


def reach(principal: Principal, verb: str) -> Reach:
    """Return the reach of `verb` (read or cancel) for a principal."""
    if principal.kind is None:
        raise Unauthenticated(NO_CREDENTIAL)
    scopes = principal.scopes
    if principal.admin or f"job:{verb}:all" in scopes:
        return Reach(everything=True)
    owners: frozenset[str] = frozenset()
    if f"job:{verb}:group" in scopes:
        owners = principal.group_members | {principal.name}
    elif f"job:{verb}:own" in scopes:
        owners = frozenset({principal.name})
    clusters: tuple[str, ...] = ()
    if verb == "read":
        clusters = tuple(sorted(s.partition(":")[2] for s in scopes if s.startswith("agent:")))
    return Reach(owners=owners, clusters=clusters)


def revoke_cluster(tx: Tx, name: str, now: float) -> None:
    """Revoke every credential of a cluster."""
    tx.revoke_of(f"cluster:{name}", now)
    tx.revoke_of(f"submitter:{name}", now)
    changed(tx)


@dataclass(slots=True)
class GroupCache:
    """Loaded when a cluster first gets rules, and again when an account changes."""

    _groups: dict[str, frozenset[str]] = field(default_factory=dict)
    _admins: frozenset[str] = frozenset()
    _claimed_groups: dict[str, frozenset[str]] = field(default_factory=dict)  # last claims of identity providers

    def groups_of(self, name: str) -> frozenset[str]:
        """Return the groups of a user: the stored ones, and those claimed by the identity provider at the last call."""
        return self._groups.get(name, frozenset()) | self._claimed_groups.get(name, frozenset())

    def is_admin(self, name: str) -> bool:
        return name in self._admins

    def remember_claims(self, principal: Principal) -> None:
        """Store the groups that an identity provider claims for the caller."""
        if principal.credential == EXTERNAL_CREDENTIAL and (
            principal.name in self._claimed_groups or len(self._claimed_groups) < MAX_CACHED_USERS
        ):
            self._claimed_groups[principal.name] = principal.groups

    async def refresh(self, store: Store) -> None:
        """Reload the accounts; claims of identity providers stay."""

        def work(tx: Tx) -> tuple[dict[str, frozenset[str]], frozenset[str]]:
            users, admin_groups = tx.users(), {group.name for group in tx.groups() if "admin" in group.rights}
            admins = {user.name for user in users if "admin" in user.rights or not admin_groups.isdisjoint(user.groups)}
            return {user.name: frozenset(user.groups) for user in users}, frozenset(admins)

        self._groups, self._admins = await store.read(work)
