"""Agents renew their own secrets: two are good during the change, and the old one ends only when the new one was used.

The agent makes the new secret itself and sends its digest, so it has it on disk before the server
knows of it. Whoever is killed between two steps, the agent holds a secret that is good.
"""

from __future__ import annotations

from rainbow_sched.model.credential import Credential, CredentialKind, Principal, checked_id
from rainbow_sched.model.errors import AlreadyExists, Denied, Invalid
from rainbow_sched.service.access.audit import Actor, acting
from rainbow_sched.service.access.principals import RENEWAL_META, changed, ends_at
from rainbow_sched.service.core import Core
from rainbow_sched.store.base import Tx

GRACE = 60.0  # seconds for which the old one stays good after the new one was used: calls under way may end


async def renew(core: Core, by: Principal, id: str, digest: bytes) -> None:
    """Make the secret `id` good beside the one that asks; if it is the one that asks, end the one before it."""
    if by.kind is not CredentialKind.AGENT:
        raise Denied("only a cluster's agent renews its own secret; rotate tokens with: rainbow token rotate")
    checked_id(id)
    if len(digest) != 32:
        raise Invalid("the digest of a secret is the 32 bytes of its SHA-256")
    actor, now = acting(), core.clock.now()

    def work(tx: Tx) -> None:
        if id == by.credential:
            _end_before(tx, actor, id, now)
        else:
            _begin(tx, actor, by.credential, id, digest, now)

    await core.store.write(work)
    core.credential_resolver.forget()


def _begin(tx: Tx, actor: Actor, old: str, id: str, digest: bytes, now: float) -> None:
    """Add the new one, once; one that was begun before and never used is given up."""
    own, known = tx.credential(old), tx.credential(id)
    if own is None or not own.live(now) or ends_at(tx, old) is not None:
        raise Denied("this secret was replaced already; use the new one")
    if known is not None:
        if known.digest == digest and known.owner == own.owner and known.live(now):
            return
        raise AlreadyExists("there is a credential with this id; make another secret")
    earlier = tx.meta(f"successor.{old}")
    if earlier:
        tx.revoke(earlier, now)
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
        )
    )
    tx.set_meta(f"successor.{old}", id)
    tx.set_meta(f"predecessor.{id}", old)
    changed(tx)
    actor.note(tx, "secret.renew", old, now, f"of {own.owner}: {id} is to take its place")


def _end_before(tx: Tx, actor: Actor, id: str, now: float) -> None:
    """The new one is in use: the one before it has had its time."""
    old = tx.meta(f"predecessor.{id}")
    if not old or ends_at(tx, old) is not None:
        return
    tx.set_meta(f"ends.{old}", repr(now + GRACE))
    changed(tx)
    actor.note(tx, "secret.renewed", old, now, f"{id} took its place")


async def ask(core: Core, cluster: str) -> None:
    """Have the agent of a cluster renew its secret; it is told with its next Sync."""
    core.fleet.member(cluster)
    actor, now = acting(), core.clock.now()

    def work(tx: Tx) -> None:
        tx.set_meta(f"{RENEWAL_META}cluster:{cluster}", repr(now))
        changed(tx)
        actor.note(tx, "secret.ask", cluster, now)

    await core.store.write(work)
    core.credential_resolver.forget()
