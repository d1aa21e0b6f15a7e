"""Queries on credentials, users, groups and the tamper-evident audit log."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from operator import attrgetter

from rainbow_sched.model.credential import Credential, CredentialKind
from rainbow_sched.model.errors import AlreadyExists
from rainbow_sched.store.named_sql import Value
from rainbow_sched.store.records import Account, AuditRow, ClusterGroup
from rainbow_sched.store.session import Row
from rainbow_sched.store.tables.rows import BYTES, FLAG, NAMES, RowFormat, choice
from rainbow_sched.store.tables.table import Table, batches, to_json

_PAGE = 1000
_FIRST_DIGEST = b"\0" * 32
_LAST_DIGEST = "digest of the last audit line"
CREDENTIALS = RowFormat(Credential, kind=choice(CredentialKind), digest=BYTES, scopes=NAMES, renewal_asked=FLAG)
USERS = RowFormat(Account, groups=NAMES, rights=NAMES, disabled=FLAG)
GROUPS = RowFormat(ClusterGroup, clusters=NAMES, rights=NAMES)
AUDIT_LINES = RowFormat(AuditRow, digest=BYTES)
_line = attrgetter(*AUDIT_LINES.columns[:-1])  # what the digest covers
_FILTERS = frozenset({"actor", "credential", "address", "verb", "object", "outcome"})


class AccessTable(Table):
    """The access queries of `base.Tx`."""

    def add_credential(self, credential: Credential) -> None:
        added = self.db.change("add_credential", **CREDENTIALS.dump(credential))
        if not added:
            raise AlreadyExists(f"there is a credential {credential.id} already; generate another id")

    def credential(self, id: str) -> Credential | None:
        return CREDENTIALS.one(self.db.rows("credential", id=id))

    def credentials(self, owner: str | None = None, kind: CredentialKind | None = None) -> list[Credential]:
        rows = self.db.rows("credentials") if owner is None else self.db.rows("credentials_of", owner=owner)
        return [c for c in CREDENTIALS.all(rows) if kind in (None, c.kind)]

    def revoke(self, id: str, at: float) -> bool:
        return self.db.change("revoke", id=id, at=at) > 0

    def revoke_of(self, owner: str, at: float) -> int:
        return self.db.change("revoke_of", owner=owner, at=at)

    def revoke_successors(self, credential: Credential, at: float) -> None:
        self.db.change("revoke_successors", owner=credential.owner, id=credential.id, at=at)

    def end_credential(self, id: str, at: float) -> None:
        self.db.change("end_credential", id=id, at=at)

    def ask_renewal(self, owner: str) -> None:
        self.db.change("ask_renewal", owner=owner)

    def touch_credential(self, id: str, at: float) -> None:
        self.db.change("touch_credential", id=id, at=at)

    def spend_credential(self, id: str) -> bool:
        return self.db.change("spend_credential", id=id) > 0

    def put_user(
        self, name: str, at: float, *, groups: Sequence[str] = (), rights: Sequence[str] = (), disabled: bool = False
    ) -> Account:
        account = Account(name=name, groups=tuple(groups), rights=tuple(rights), disabled=disabled)
        self.db.change("put_user", at=at, **USERS.dump(account))
        return USERS.load(self.db.rows("user", name=name)[0])

    def user(self, name: str) -> Account | None:
        return USERS.one(self.db.rows("user", name=name))

    def users(self) -> list[Account]:
        return sorted(USERS.all(self.db.rows("users")), key=lambda user: user.name)

    def put_group(self, name: str, clusters: Sequence[str], rights: Sequence[str] = ()) -> ClusterGroup:
        group = ClusterGroup(name, tuple(clusters), tuple(rights))
        self.db.change("put_group", **GROUPS.dump(group))
        return group

    def groups(self, names: Collection[str] | None = None) -> list[ClusterGroup]:
        if names is None:
            rows = self.db.rows("groups")
        else:
            rows = [row for part in batches(list(names)) for row in self.db.rows("groups_by_name", names=part)]
        return sorted(GROUPS.all(rows), key=lambda group: group.name)

    def append_audit(
        self, at: float, actor: str, credential: str, address: str, verb: str, object: str, outcome: str, detail: str
    ) -> int:
        before = self._last_digest()
        seq = self.db.allocate("audit")
        line = (seq, at, actor, credential, address, verb, object, outcome, detail)
        digest = _link(before, line)
        self.db.change("add_audit", **dict(zip(AUDIT_LINES.columns, (*line, digest), strict=True)))
        self.db.cache[_LAST_DIGEST] = digest
        return seq

    def _last_digest(self) -> bytes:
        """Return the digest to which the next line of the audit log is chained."""
        if _LAST_DIGEST not in self.db.cache:
            last = self.db.row("audit_digest", seq=self.db.counter("audit"))
            self.db.cache[_LAST_DIGEST] = _FIRST_DIGEST if last is None else bytes(last[0])
        digest: bytes = self.db.cache[_LAST_DIGEST]
        return digest

    def audit(self, after: int, limit: int, **equal: str) -> list[AuditRow]:
        if unknown := equal.keys() - _FILTERS:
            raise TypeError(f"the audit log has no filter {', '.join(sorted(unknown))}")
        conditions = "".join(f" AND {self.db.text(f'audit_{name}')}" for name in equal)
        text = f"{self.db.text('audit')}{conditions} {self.db.text('oldest_audit')}"
        values: dict[str, Value] = {**equal, "after": after, "limit": limit}
        return AUDIT_LINES.all(self.db.rows_of(text, values))

    def verify_audit(self) -> int | None:
        """Also detect lines deleted at the end, by the counter of lines."""
        seq, digest = 0, _FIRST_DIGEST
        while page := self.audit(seq, _PAGE):
            for row in page:
                if row.seq != seq + 1 or row.digest != _link(digest, _line(row)):
                    return seq + 1
                seq, digest = row.seq, row.digest
        return None if seq == self.db.counter("audit") else seq + 1


def _link(before: bytes, line: Row) -> bytes:
    """Return the digest of a line chained to the previous digest."""
    return hashlib.sha256(before + to_json(line).encode()).digest()
