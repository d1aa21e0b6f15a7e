"""Users, groups and tokens: create, list, change, revoke and rotate; each change writes an audit line.

A new token grants at most the scopes and lifetime of the token that creates it. A token out of
reach is reported as not found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from rainbow_sched.model.cluster import cluster_name
from rainbow_sched.model.credential import Credential, CredentialKind, Principal, checked_scope, user_name
from rainbow_sched.model.errors import AlreadyExists, Denied, Invalid, NotFound
from rainbow_sched.service.access.audit import acting
from rainbow_sched.service.access.principals import ADMIN, changed, within
from rainbow_sched.service.clusters.rules import refresh_groups
from rainbow_sched.service.core import Core
from rainbow_sched.service.random_ids import Ids
from rainbow_sched.store.base import Account, AuditRow, ClusterGroup, Store, Tx

DAY_SECONDS = 86_400.0  # seconds of a day
TOKEN_TTL_SECONDS = 30 * DAY_SECONDS  # default lifetime of a token: 30 days
JOIN_TTL_SECONDS = 3_600.0  # default lifetime of a join token, which is needed only for a registration
MAX_TTL_SECONDS = 366 * DAY_SECONDS  # longest lifetime of a token: a year
GRACE_SECONDS = 600.0  # a rotated secret stays valid for this long by default, while the new one is distributed
MAX_GRACE_SECONDS = 7 * DAY_SECONDS  # bounds how long two secrets of one token are valid
MAX_NAMES = 1_000  # bounds the size of one list of names in a call
MAX_TOKENS_PER_OWNER = 1_000  # live tokens; bounds what one owner can store
T = TypeVar("T")
GroupWithUsers: TypeAlias = tuple[ClusterGroup, list[str]]
_PERSONAL_KINDS = (CredentialKind.USER, CredentialKind.ADMIN)
_ROTATABLE_KINDS = (*_PERSONAL_KINDS, CredentialKind.AGENT)  # submit tokens are shared, so no holder may rotate them


async def put_user(
    core: Core,
    name: str,
    *,
    groups: Sequence[str] | None = None,
    rights: Sequence[str] | None = None,
    disabled: bool | None = None,
    create: bool = False,
) -> Account:
    """Add or change a user; None leaves a value unchanged. Disabling also ends open streams."""
    user_name(name)
    by, now = acting(), core.clock.now()
    if by.principal.name == name and (disabled or (rights is not None and "admin" not in rights)):
        raise Invalid("administrators cannot remove their own rights; another administrator must do it")
    new_groups = None if groups is None else _checked_names(groups, user_name)
    new_rights = None if rights is None else _checked_names(rights, checked_scope)

    def work(tx: Tx) -> Account:
        before = tx.user(name)
        _check_create("user", name, create, exists=before is not None)
        kept = before or Account(name=name)
        unknown = set(new_groups or ()) - {group.name for group in tx.groups()}
        if unknown:
            raise NotFound(f"there is no group {min(unknown)!r}; add one with: rainbow group add {min(unknown)}")
        account = tx.put_user(
            name,
            now,
            groups=kept.groups if new_groups is None else new_groups,
            rights=kept.rights if new_rights is None else new_rights,
            disabled=kept.disabled if disabled is None else disabled,
        )
        detail = f"groups {','.join(account.groups) or '-'}; rights {','.join(account.rights) or '-'}"
        detail = f"disabled; {detail}" if account.disabled else detail
        by.note(tx, "user.add" if create else "user.change", name, now, detail)
        return account

    account = await _change_rights(core, work)
    await refresh_groups(core)
    return account


def _checked_names(names: Sequence[str], check: Callable[[str], str]) -> tuple[str, ...]:
    if len(names) > MAX_NAMES:
        raise Invalid(f"at most {MAX_NAMES} names, not {len(names)}")
    return tuple(sorted({check(name) for name in names}))


def _check_create(kind: str, name: str, create: bool, *, exists: bool) -> None:
    """Raise AlreadyExists or NotFound for a user or group that cannot be created or changed."""
    if create and exists:
        raise AlreadyExists(f"there is a {kind} {name!r}; change it with: rainbow {kind} set {name}")
    if not create and not exists:
        raise NotFound(f"there is no {kind} {name!r}; add one with: rainbow {kind} add {name}")


async def _change_rights(core: Core, work: Callable[[Tx], T]) -> T:
    """Change rights in one transaction, so that no server goes on with what it has cached."""

    def changing(tx: Tx) -> T:
        answer = work(tx)
        changed(tx)
        return answer

    answer = await core.store.write(changing)
    core.credential_resolver.forget()
    return answer


async def users(core: Core) -> list[Account]:
    """Return all users by name."""
    return await core.store.read(lambda tx: tx.users())


async def put_group(
    core: Core,
    name: str,
    *,
    clusters: Sequence[str] | None = None,
    rights: Sequence[str] | None = None,
    create: bool = False,
) -> GroupWithUsers:
    """Add or change a group; None leaves a value unchanged."""
    user_name(name)
    by, now = acting(), core.clock.now()
    members = None if clusters is None else _checked_names(clusters, cluster_name)
    requested = None if rights is None else _checked_names(rights, checked_scope)

    def work(tx: Tx) -> GroupWithUsers:
        before = next(iter(tx.groups([name])), None)
        _check_create("group", name, create, exists=before is not None)
        kept = before or ClusterGroup(name, ())
        group = tx.put_group(
            name, kept.clusters if members is None else members, kept.rights if requested is None else requested
        )
        detail = f"clusters {','.join(group.clusters) or '-'}; rights {','.join(group.rights) or '-'}"
        by.note(tx, "group.add" if create else "group.change", name, now, detail)
        return _with_users(tx, [group])[0]

    answer = await _change_rights(core, work)
    await refresh_groups(core)
    return answer


def _with_users(tx: Tx, groups: Sequence[ClusterGroup]) -> list[GroupWithUsers]:
    users = tx.users()
    return [(group, [user.name for user in users if group.name in user.groups]) for group in groups]


async def groups(core: Core) -> list[GroupWithUsers]:
    """Return all groups by name, with the names of their users."""
    return await core.store.read(lambda tx: _with_users(tx, tx.groups()))


async def create_token(
    core: Core, by: Principal, *, owner: str, scopes: Sequence[str], ttl: float, note: str, join: bool
) -> tuple[str, Credential]:
    """Create a token; return its text, to be shown once, and the stored row."""
    actor, now = acting(), core.clock.now()
    requested = _checked_names(scopes, checked_scope)
    owner, kind, requested = _checked_token(by, owner or by.name, requested, join)
    seconds = _checked_ttl(ttl, JOIN_TTL_SECONDS if join else TOKEN_TTL_SECONDS)
    until = now + seconds if by.admin or by.until is None else min(now + seconds, by.until)
    text, stored = core.ids.credential(
        kind, owner, requested, now, expires_at=until, uses_left=1 if join else None, note=_printable(note)
    )

    def work(tx: Tx) -> None:
        if owner != by.name and not join and tx.user(owner) is None:
            raise NotFound(f"there is no user {owner!r}; add one with: rainbow user add {owner}")
        if sum(one.live(now) for one in tx.credentials(owner=owner)) >= MAX_TOKENS_PER_OWNER:
            raise Invalid(f"{owner} has {MAX_TOKENS_PER_OWNER} live tokens; revoke some")
        tx.add_credential(stored)
        actor.note(tx, "token.create", stored.id, now, f"for {owner}: {','.join(requested)}")

    await core.store.write(work)
    return text, stored


def _checked_token(
    by: Principal, owner: str, scopes: tuple[str, ...], join: bool
) -> tuple[str, CredentialKind, tuple[str, ...]]:
    """Reject scopes that the caller does not hold; return owner, kind and scopes of the token."""
    if by.kind not in _PERSONAL_KINDS:
        raise Denied("only users can create tokens; this credential is a cluster's")
    if owner != by.name and not by.admin:
        raise Denied("your credential can create tokens only for yourself")
    if join:
        scopes = scopes or ("register:*",)
        if not all(scope.startswith("register:") for scope in scopes):
            raise Invalid("a join token allows registration only: register:PATTERN")
    elif not scopes:
        scopes = tuple(sorted(by.scopes)) if owner == by.name else ()
        if not scopes:
            raise Invalid("give --scope, for example --scope 'submit:*' --scope job:read:own")
    if not within(by, scopes):
        raise Denied("a new token can have only the scopes of the credential that creates it")
    return (
        owner,
        CredentialKind.JOIN if join else CredentialKind.ADMIN if "admin" in scopes else CredentialKind.USER,
        scopes,
    )


def _checked_ttl(ttl: float, default: float) -> float:
    if ttl == 0:
        return default
    if not 1 <= ttl <= MAX_TTL_SECONDS:
        raise Invalid(f"a token's lifetime must be between 1 second and {MAX_TTL_SECONDS / DAY_SECONDS:g} days")
    return ttl


def _printable(note: str) -> str:
    if len(note) > 200 or not note.isprintable():
        raise Invalid("a note has at most 200 printable characters")
    return note


async def tokens(core: Core, by: Principal, owner: str, *, everybody: bool, dead: bool) -> list[Credential]:
    """Return the caller's tokens; administrators may list those of others."""
    chosen = None if everybody and by.admin else owner if owner and by.admin else by.name
    if owner and owner != by.name and not by.admin:
        return []
    now = core.clock.now()

    def work(tx: Tx) -> list[Credential]:
        return [one for one in tx.credentials(owner=chosen) if dead or one.usable(now)]

    return await core.store.read(work)


async def revoke(core: Core, by: Principal, id: str) -> None:
    """Revoke a token at once."""
    actor, now = acting(), core.clock.now()

    def work(tx: Tx) -> None:
        stored = _changeable_token(tx, by, id, now)
        tx.revoke(stored.id, now)
        actor.note(tx, "token.revoke", stored.id, now, f"of {stored.owner}")

    await _change_rights(core, work)


async def rotate(core: Core, by: Principal, id: str, grace: float) -> tuple[str, Credential]:
    """Replace a secret; the old one stays valid for `grace` seconds."""
    actor, now = acting(), core.clock.now()
    if grace and not 0 < grace <= MAX_GRACE_SECONDS:
        raise Invalid(f"the grace period is at most {MAX_GRACE_SECONDS / DAY_SECONDS:g} days")
    old = await core.store.read(lambda tx: _changeable_token(tx, by, id or by.credential, now))
    if old.kind is CredentialKind.JOIN:
        raise Invalid("a join token can be used once; create a new one")
    lifetime = None if old.expires_at is None else now + (old.expires_at - old.created_at)
    text, new = core.ids.credential(old.kind, old.owner, old.scopes, now, expires_at=lifetime, note=old.note)

    def work(tx: Tx) -> None:
        again = _changeable_token(tx, by, old.id, now)
        if again.ends_at is not None:
            raise Denied("this secret was rotated already; use the new one")
        tx.add_credential(new)
        tx.end_credential(again.id, now + (grace or GRACE_SECONDS))
        actor.note(tx, "token.rotate", again.id, now, f"of {again.owner}: {new.id} takes its place")

    await _change_rights(core, work)
    return text, new


def _changeable_token(tx: Tx, by: Principal, id: str, now: float) -> Credential:
    """Return a live token that the caller may revoke or rotate; raise NotFound for any other."""
    stored = tx.credential(id)
    if stored is None or not stored.live(now) or not _may_change(by, stored):
        raise NotFound(f"there is no token {id[:32]!r}")
    return stored


def _may_change(by: Principal, stored: Credential) -> bool:
    if by.admin:
        return True
    if stored.id == by.credential:
        return stored.kind in _ROTATABLE_KINDS
    return by.kind in _PERSONAL_KINDS and stored.owner == by.name and within(by, stored.scopes)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSlice:
    """Lines of the audit log, and whether the whole log is intact."""

    lines: list[AuditRow]
    count: int
    more: bool
    verified: bool = False
    broken_at: int = 0


async def read_audit(
    core: Core, *, after: int, limit: int, verify: bool, newest: bool, equal: dict[str, str]
) -> AuditSlice:
    """Return lines of the audit log; `verify` checks the whole chain."""
    most = min(limit if limit > 0 else 100, 1_000)

    def work(tx: Tx) -> AuditSlice:
        count = tx.sizes()["audit"]
        start = max(0, count - most) if newest else max(0, after)
        lines = tx.audit(start, most + 1, **equal)
        broken = tx.verify_audit() if verify else None
        return AuditSlice(
            lines=lines[:most],
            count=count,
            more=len(lines) > most,
            verified=verify and broken is None,
            broken_at=broken or 0,
        )

    return await core.store.read(work)


def _admin_credential(ids: Ids, now: float, note: str) -> tuple[str, Credential]:
    return ids.credential(CredentialKind.ADMIN, ADMIN, ("admin", "submit:*", "register:*"), now, note=note)


async def first_administrator(store: Store, ids: Ids, now: float) -> str | None:
    """Create the first administrator if there is none and return its token, else None."""
    token, credential = _admin_credential(ids, now, "first start")

    def work(tx: Tx) -> bool:
        if tx.credentials(kind=CredentialKind.ADMIN):
            return False
        tx.add_credential(credential)
        return True

    return token if await store.write(work) else None


async def new_administrator(store: Store, ids: Ids, now: float) -> str:
    """Enable the first account again with a new token and return its text; for operators without a token."""
    text, credential = _admin_credential(ids, now, "made beside the database")

    def work(tx: Tx) -> None:
        before = tx.user(ADMIN) or Account(name=ADMIN)
        tx.put_user(ADMIN, now, groups=before.groups, rights=sorted({"admin", *before.rights}))
        changed(tx)
        tx.add_credential(credential)
        acting().note(tx, "token.recover", credential.id, now, f"for {ADMIN}, by whoever can open the database")

    await store.write(work)
    return text


async def ensure_administrator(core: Core) -> None:
    """Give the first administrator an account, so that it can be disabled like any other."""
    now = core.clock.now()

    def work(tx: Tx) -> None:
        if tx.user(ADMIN) is None:
            tx.put_user(ADMIN, now, rights=("admin",))
            changed(tx)
            acting().note(tx, "user.add", ADMIN, now, "first start")

    await core.store.write(work)
