"""Who is in which group and who is an administrator, in memory: decisions must not wait for the store to know it."""

from __future__ import annotations

from dataclasses import dataclass, field

from rainbow_sched.model.credential import Principal
from rainbow_sched.service.access.principals import EXTERNAL_CREDENTIAL, rights_of
from rainbow_sched.store.base import Store, Tx

MOST_VOUCHED = 100_000


@dataclass(slots=True)
class GroupCache:
    """Read when a cluster first gets rules, and again when an account changes. Without rules nobody asks."""

    _groups: dict[str, frozenset[str]] = field(default_factory=dict)
    _admins: frozenset[str] = frozenset()
    _vouched: dict[str, frozenset[str]] = field(default_factory=dict)  # what an issuer said of somebody, last

    def groups_of(self, name: str) -> frozenset[str]:
        """The groups of a user: as stored here, and as their issuer told when they last called."""
        return self._groups.get(name, frozenset()) | self._vouched.get(name, frozenset())

    def is_admin(self, name: str) -> bool:
        """True if everything is open to this user."""
        return name in self._admins

    def remember_claims(self, principal: Principal) -> None:
        """Somebody calls; if an issuer vouches for them, their groups are what it says now."""
        if principal.credential == EXTERNAL_CREDENTIAL and (
            principal.name in self._vouched or len(self._vouched) < MOST_VOUCHED
        ):
            self._vouched[principal.name] = principal.groups

    async def refresh(self, store: Store) -> None:
        """Read the accounts again; what issuers said counts until they say something else."""

        def work(tx: Tx) -> tuple[dict[str, frozenset[str]], frozenset[str]]:
            users = tx.users()
            admins = {user.name for user in users if "admin" in rights_of(tx, user.name, user.groups)}
            return {user.name: frozenset(user.groups) for user in users}, frozenset(admins)

        self._groups, self._admins = await store.read(work)
