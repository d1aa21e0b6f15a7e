"""Cache of group memberships and administrators, so that decisions need not wait for the store."""

from __future__ import annotations

from dataclasses import dataclass, field

from rainbow_sched.model.credential import Principal
from rainbow_sched.service.access.principals import EXTERNAL_CREDENTIAL
from rainbow_sched.store.base import Store, Tx

MAX_CACHED_USERS = 100_000


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
        """Return True if the user is an administrator."""
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
