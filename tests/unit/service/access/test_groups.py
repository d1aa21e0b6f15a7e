"""People in memory: stored groups, and what an issuer said last."""

from __future__ import annotations

from pathlib import Path

from rainbow_sched.model.credential import CredentialKind, Principal
from rainbow_sched.service.access.principals import EXTERNAL_CREDENTIAL, GroupCache
from rainbow_sched.store.base import Tx
from tests.support.service import a_service


def vouched(*groups: str) -> Principal:
    return Principal(name="ines", kind=CredentialKind.USER, credential=EXTERNAL_CREDENTIAL, groups=frozenset(groups))


def test_what_an_issuer_says_counts_until_it_says_something_else() -> None:
    group_cache = GroupCache()
    group_cache.remember_claims(vouched("lab", "gpus"))
    assert group_cache.groups_of("ines") == {"lab", "gpus"}
    group_cache.remember_claims(vouched())
    assert group_cache.groups_of("ines") == set()


def test_groups_that_come_with_a_stored_token_are_not_kept_beside_the_account() -> None:
    group_cache = GroupCache()
    group_cache.remember_claims(
        Principal(name="ana", kind=CredentialKind.USER, credential="abc", groups=frozenset({"lab"}))
    )
    assert group_cache.groups_of("ana") == set(), "the account says it, and may say something else tomorrow"


async def test_accounts_are_known_after_a_refresh_and_rights_of_groups_count(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        core = service.core

        def work(tx: Tx) -> None:
            tx.put_group("operators", (), rights=("admin",))
            tx.put_user("ana", 1.0, groups=("operators",))
            tx.put_user("bob", 1.0)

        await core.store.write(work)
        await core.group_cache.refresh(core.store)
        assert core.group_cache.groups_of("ana") == {"operators"}
        assert core.group_cache.is_admin("ana")
        assert not core.group_cache.is_admin("bob")
        assert not core.group_cache.is_admin("nobody")
