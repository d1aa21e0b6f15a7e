"""Renewal of agents' secrets: both are valid during the change; the old one expires once the new one is used.

The agent creates the secret and sends its digest, so it is on its disk before the server knows it.
If either side crashes meanwhile, the agent still has a valid secret.
"""

from __future__ import annotations

from rainbow_sched.model.credential import Credential, CredentialKind, Principal, checked_id
from rainbow_sched.model.errors import AlreadyExists, Denied, Invalid
from rainbow_sched.service.access.audit import Actor, acting
from rainbow_sched.service.access.principals import changed
from rainbow_sched.service.core import Core
from rainbow_sched.store.base import Tx

GRACE_SECONDS = 60.0  # seconds for which the old secret stays valid, for calls in progress


async def renew(core: Core, by: Principal, id: str, digest: bytes) -> None:
    """Make the secret `id` valid beside the caller's; if it is the caller's own, expire its predecessor."""
    if by.kind is not CredentialKind.AGENT:
        raise Denied("only a cluster's agent can renew its own secret; rotate tokens with: rainbow token rotate")
    checked_id(id)
    if len(digest) != 32:
        raise Invalid("the digest of a secret is the 32 bytes of its SHA-256")
    actor, now = acting(), core.clock.now()

    def work(tx: Tx) -> None:
        if id == by.credential:
            _end_predecessor(tx, actor, id, now)
        else:
            _add_successor(tx, actor, by.credential, id, digest, now)

    await core.store.write(work)
    core.credential_resolver.forget()


def _add_successor(tx: Tx, actor: Actor, old: str, id: str, digest: bytes, now: float) -> None:
    """Add the new secret once; revoke an earlier successor that was never used."""
    own, known = tx.credential(old), tx.credential(id)
    if own is None or not own.live(now) or own.ends_at is not None:
        raise Denied("this secret was replaced already; use the new one")
    if known is not None:
        if known.digest == digest and known.owner == own.owner and known.live(now):
            return
        raise AlreadyExists("this credential id exists; create another secret")
    tx.revoke_successors(own, now)
    tx.add_credential(
        Credential(
            id=id,
            kind=CredentialKind.AGENT,
            digest=digest,
            owner=own.owner,
            scopes=own.scopes,
            created_at=now,
            expires_at=None if own.expires_at is None else now + (own.expires_at - own.created_at),
            note=own.note,
            replaces=old,
        )
    )
    changed(tx)
    actor.note(tx, "secret.renew", old, now, f"of {own.owner}: {id} is to take its place")


def _end_predecessor(tx: Tx, actor: Actor, id: str, now: float) -> None:
    """Expire the predecessor of a secret that is in use."""
    own = tx.credential(id)
    old = tx.credential(own.replaces) if own is not None else None
    if old is None or old.ends_at is not None:
        return
    tx.end_credential(old.id, now + GRACE_SECONDS)
    changed(tx)
    actor.note(tx, "secret.renewed", old.id, now, f"{id} took its place")


async def ask(core: Core, cluster: str) -> None:
    """Ask the agent of a cluster, with its next Sync, to renew its secret."""
    core.fleet.member(cluster)
    actor, now = acting(), core.clock.now()

    def work(tx: Tx) -> None:
        tx.ask_renewal(f"cluster:{cluster}")
        changed(tx)
        actor.note(tx, "secret.ask", cluster, now)

    await core.store.write(work)
    core.credential_resolver.forget()
