"""Who is calling, and how far that reaches: credentials to principals, principals to clusters and jobs.

The effective rights of a caller are what both their credential and their account allow. What
is learned of a credential holds for a second at most, so a revocation is felt within one.
"""

from __future__ import annotations

import fnmatch
import hmac
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

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
from rainbow_sched.store.base import Account, Store, Tx

__all__ = ["ANONYMOUS", "CredentialResolver", "Reach", "may", "need", "reach"]

REGISTRATION_META = "registration.digest"
REVISION_META = "access.revision"
RENEWAL_META = "renew."
KNOWN_FOR = 1.0  # seconds for which a credential is not looked up again
MOST_KNOWN = 10_000
USED_EVERY = 60.0  # seconds between two notes of a credential's use
ADMIN = "admin"  # the first administrator
EXTERNAL_CREDENTIAL = "oidc"  # in place of a credential's id: somebody else vouches for the caller
NOBODYS_ID = "000000000000"
_NOBODY = digest("nobody has this credential")
_OWN_JOBS = ("job:read:own", "job:cancel:own")
_PEOPLE = (CredentialKind.USER, CredentialKind.ADMIN, CredentialKind.JOIN)
_ASK = "this call needs a credential: set RAINBOW_TOKEN, or token in the configuration file"
_REFUSED = "the credential is unknown, expired or revoked"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalIdentity:
    """A person whom somebody else vouches for."""

    name: str
    groups: frozenset[str]
    until: float


class IdentityProvider(Protocol):
    """Somebody who vouches for people: an OpenID provider."""

    async def identify(self, text: str, now: float) -> ExternalIdentity | None:
        """Who the bearer of `text` is; None if it is not for this voucher to say, Unauthenticated if it is wrong."""
        ...


@dataclass(frozen=True, slots=True)
class _Known:
    at: float
    until: float | None
    principal: Principal


class CredentialResolver:
    """Turns the text of a credential into a principal."""

    def __init__(
        self, store: Store, registration: bytes | None = None, identity_provider: IdentityProvider | None = None
    ) -> None:
        self._store, self._registration = store, registration
        self.identity_provider = identity_provider
        self._known: dict[bytes, _Known] = {}
        self._valid_once: dict[bytes, None] = {}  # credentials that were good once: looked up again without a wait
        self._used: dict[str, float] = {}  # credential -> last use that is not stored yet
        self._stored_use: dict[str, float] = {}
        self._members = Members()
        self.revision = 0  # grows when anything was revoked or changed in this process

    def forget(self) -> None:
        """Look every credential up again: one was revoked, rotated or changed."""
        self._known.clear()
        self.revision += 1

    def known(self, text: str, now: float) -> Principal | None:
        """The caller if the credential was looked up within the last second: no waiting."""
        known = self._known.get(digest(text))
        if known is not None and 0 <= now - known.at < KNOWN_FOR and (known.until is None or now < known.until):
            return known.principal
        return None

    def was_valid(self, text: str) -> bool:
        """True if the credential was good once since the start."""
        return digest(text) in self._valid_once

    async def resolve(self, text: str, now: float) -> Principal:
        """Name the caller; raise Unauthenticated without saying why."""
        return self.known(text, now) or await self._looked_up(text, now)

    async def _looked_up(self, text: str, now: float) -> Principal:
        key = digest(text)
        if self._registration is not None and hmac.compare_digest(key, self._registration):
            return Principal(name="registrant", kind=CredentialKind.REGISTRATION, scopes=frozenset({"register:*"}))
        identity = await self.identity_provider.identify(text, now) if self.identity_provider is not None else None
        if identity is not None:
            principal = await self._store.read(lambda tx: _vouched(tx, identity, self._members))
        else:
            id = id_of(text) or NOBODYS_ID
            principal = await self._store.read(lambda tx: _principal(tx, id, key, now, self._members))
        if principal is None:
            raise Unauthenticated(_REFUSED)
        if principal.kind is not CredentialKind.JOIN:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[key] = _Known(now, principal.until, principal)
            self._valid_once[key] = None
            if len(self._valid_once) > 10 * MOST_KNOWN:
                del self._valid_once[next(iter(self._valid_once))]
        if identity is None and now - self._stored_use.get(principal.credential, 0.0) >= USED_EVERY:
            self._used[principal.credential] = now
        return principal

    def uses(self) -> dict[str, float]:
        """Credentials that were used and when, to be stored now; they are not told again."""
        taken, self._used = self._used, {}
        if len(self._stored_use) > MOST_KNOWN:
            self._stored_use.clear()
        self._stored_use.update(taken)
        return taken


class Members:
    """Who is in which group; read again when rights changed."""

    def __init__(self) -> None:
        self._kept: tuple[int, dict[str, set[str]]] = (-1, {})

    def of(self, tx: Tx, groups: Iterable[str]) -> frozenset[str]:
        """The users in any of these groups."""
        now = revision(tx)
        if self._kept[0] != now:
            found: dict[str, set[str]] = {}
            for user in tx.users():
                for group in user.groups:
                    found.setdefault(group, set()).add(user.name)
            self._kept = (now, found)
        return frozenset().union(*(self._kept[1].get(group, ()) for group in groups))


def _principal(tx: Tx, id: str, key: bytes, now: float, members: Members) -> Principal | None:
    """The live caller behind a credential, or None; an unknown one takes the same steps as a known one."""
    stored = tx.credential(id)
    same = hmac.compare_digest(stored.digest if stored else _NOBODY, key)
    ends = _earliest(stored.expires_at if stored else None, ends_at(tx, id))
    if stored is None or not same or not stored.live(now) or (ends is not None and now >= ends):
        return None
    account = tx.user(stored.owner) if stored.kind in _PEOPLE else None
    if stored.kind in _PEOPLE and not _active(account, stored):
        return None
    return principal_of(tx, stored, account, ends, members)


def _active(account: Account | None, credential: Credential) -> bool:
    """The first administrator has no account until one is made; everybody else needs one."""
    if account is None:
        return credential.owner == ADMIN
    return not account.disabled


def principal_of(
    tx: Tx, credential: Credential, account: Account | None, until: float | None, members: Members
) -> Principal:
    """The caller that a live credential stands for, with the rights that credential and owner share."""
    groups = {group.name: group.clusters for group in tx.groups()} if _names_groups(tx, credential, account) else {}
    scopes = expand(credential.scopes, groups)
    if account is not None:
        scopes = intersect(scopes, expand(rights_of(tx, account.name, account.groups), groups))
    return Principal(
        name=credential.owner,
        kind=credential.kind,
        credential=credential.id,
        scopes=scopes,
        groups=frozenset(account.groups if account else ()),
        group_members=_group_members(tx, scopes, account.groups if account else (), members),
        until=until,
        renew=credential.kind is CredentialKind.AGENT and asked_at(tx, credential.owner) > credential.created_at,
    )


def _names_groups(tx: Tx, credential: Credential, account: Account | None) -> bool:
    rights = rights_of(tx, account.name, account.groups) if account else ()
    return any(":@" in scope for scope in (*credential.scopes, *rights))


def _vouched(tx: Tx, identity: ExternalIdentity, members: Members) -> Principal | None:
    """A person with a token of somebody else: the rights of the account, if there is one, and of the groups told."""
    account = tx.user(identity.name)
    if account is not None and account.disabled:
        return None
    groups = identity.groups | set(account.groups if account else ())
    clusters = {group.name: group.clusters for group in tx.groups()}
    scopes = expand(rights_of(tx, identity.name, tuple(sorted(groups))), clusters)
    return Principal(
        name=identity.name,
        kind=CredentialKind.USER,
        credential=EXTERNAL_CREDENTIAL,
        scopes=scopes,
        groups=groups,
        group_members=_group_members(tx, scopes, tuple(groups), members),
        until=identity.until,
    )


def _group_members(tx: Tx, scopes: frozenset[str], groups: tuple[str, ...], members: Members) -> frozenset[str]:
    if not groups or not any(scope.endswith(":group") for scope in scopes):
        return frozenset()
    return members.of(tx, groups)


def rights_of(tx: Tx, name: str, groups: tuple[str, ...]) -> tuple[str, ...]:
    """What a user may do at most: their own rights, those of their groups, and always their own jobs."""
    found = [*_OWN_JOBS, *stored_rights(tx, "user", name)]
    for group in groups:
        found.extend(stored_rights(tx, "group", group))
    return tuple(dict.fromkeys(found))


def stored_rights(tx: Tx, kind: str, name: str) -> tuple[str, ...]:
    """The rights given to one `user` or `group`."""
    text = tx.meta(f"rights.{kind}.{name}")
    return tuple(json.loads(text)) if text else ()


def store_rights(tx: Tx, kind: str, name: str, rights: tuple[str, ...]) -> None:
    """Keep the rights of one `user` or `group`."""
    tx.set_meta(f"rights.{kind}.{name}", json.dumps(rights))
    changed(tx)


def ends_at(tx: Tx, id: str) -> float | None:
    """When a credential that was rotated stops being good; None: it was not."""
    text = tx.meta(f"ends.{id}")
    return float(text) if text else None


def asked_at(tx: Tx, owner: str) -> float:
    """When the agent of a cluster was last asked to renew its secret."""
    return float(tx.meta(f"{RENEWAL_META}{owner}") or 0)


def _earliest(*times: float | None) -> float | None:
    return min((time for time in times if time is not None), default=None)


def changed(tx: Tx) -> None:
    """Tell every server on this database that rights changed: open streams are looked at again."""
    tx.set_meta(REVISION_META, str(revision(tx) + 1))


def revision(tx: Tx) -> int:
    """How often rights changed."""
    return int(tx.meta(REVISION_META) or 0)


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
        raise Unauthenticated(_ASK)
    if not may(principal, verb, name):
        raise Denied(f"your credential does not open {verb} on {name[:128]!r}")


def within(principal: Principal, scopes: tuple[str, ...]) -> bool:
    """True if the principal could do all that `scopes` open."""
    return all(any(covers(own, scope) for own in principal.scopes) for scope in scopes)


@dataclass(frozen=True, slots=True)
class Reach:
    """Which jobs a principal may read or cancel: all, or those of these owners, or those on these clusters."""

    everything: bool = False
    owners: frozenset[str] = frozenset()
    clusters: tuple[str, ...] = ()  # an agent's: the jobs given to it

    def covers(self, owner: str, cluster: str) -> bool:
        """True if a job of this owner on this cluster is within reach."""
        return self.everything or owner in self.owners or cluster in self.clusters


def reach(principal: Principal, verb: str) -> Reach:
    """How far `verb` (read or cancel) of a principal goes over jobs."""
    if principal.kind is None:
        raise Unauthenticated(_ASK)
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


def cluster_scopes(name: str) -> dict[CredentialKind, tuple[str, ...]]:
    """The scopes of the two credentials that a cluster gets when it registers."""
    return {
        CredentialKind.SUBMIT: (f"submit:{name}", "job:read:own", "job:cancel:own"),
        CredentialKind.AGENT: (f"agent:{name}",),
    }


def revoke_cluster(tx: Tx, name: str, now: float) -> None:
    """End every credential that a cluster was given."""
    tx.revoke_of(f"cluster:{name}", now)
    tx.revoke_of(f"submitter:{name}", now)
    changed(tx)
