"""The claim: a lease with a fencing term that allows one server per database.

A row of the database names the server (see migration 0007). Each takeover by another server increments its term. A
server renews the row every `RENEW_SECONDS` (`claim_keeper.py`), and each of its write transactions first checks that
the row is still its own. On PostgreSQL that check locks the row (`FOR KEY SHARE`) until the transaction ends, and a
takeover waits for it: a write commits before the takeover, or it fails. On SQLite the file's write lock does the same.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from rainbow_sched.model.errors import Unavailable
from rainbow_sched.store.processes import ProcessIdentity
from rainbow_sched.store.session import Session

log = logging.getLogger(__name__)
SERVER_ROLE = "server"
LEASE_SECONDS = 6.0  # a claim that was not renewed for this long may be taken
RENEW_SECONDS = 1.5
WAIT_SECONDS = 10.0  # how long a second server waits for the claim to expire
POLL_SECONDS = 0.2
FIRST_CLAIM_SCHEMA = 7  # the migration that creates the table


class ClaimTaken(Unavailable):
    """Another server serves this database."""


class Replaced(Unavailable):
    """Another server has taken this server's claim; this one may not write or respond any more."""


@dataclass(frozen=True, slots=True)
class Claimant:
    """A server that requests a claim: its process, and a random name of this run."""

    instance: str
    identity: ProcessIdentity


@dataclass(frozen=True, slots=True)
class ClaimRow:
    """The claim row at the time it was read."""

    term: int
    instance: str
    identity: ProcessIdentity
    since: float
    renewals: int
    expires_at: float
    now: float  # the database's clock when the row was read

    @property
    def lapsed(self) -> bool:
        """Return True if the claim was released, or not renewed in time."""
        return self.expires_at <= self.now

    @property
    def version(self) -> tuple[int, str, int]:
        """Return a value that changes with every renewal and every takeover."""
        return self.term, self.instance, self.renewals

    def is_of(self, claimant: Claimant, term: int) -> bool:
        """Return True if the claim is still this claimant's."""
        return (self.term, self.instance) == (term, claimant.instance)

    def __str__(self) -> str:
        return f"the server on {self.identity.host} (process {self.identity.process}, since {utc(self.since)})"


def utc(seconds: float) -> str:
    """Format a time for people."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def read_claim(session: Session) -> ClaimRow | None:
    """Return the claim row; None if no server has claimed the database yet."""
    row = session.row("claim", role=SERVER_ROLE)
    if row is None:
        return None
    term, instance, host, process, boot, pid_space, process_start, since, renewals, expires_at, now = row
    identity = ProcessIdentity(host, process, boot, pid_space, process_start)
    return ClaimRow(term, instance, identity, since, renewals, expires_at, now)


def check_claim(session: Session, claimant: Claimant, term: int) -> bool:
    """Inside a write transaction, return True if the claim is held; it then is until the transaction ends."""
    return session.row("check_claim", role=SERVER_ROLE, term=term, instance=claimant.instance) is not None


def renew_claim(session: Session, claimant: Claimant, term: int) -> bool:
    """Extend the claim by a lease, even if it has expired; return False if another server has taken it."""
    values = {"role": SERVER_ROLE, "term": term, "instance": claimant.instance, "lease": LEASE_SECONDS}
    return session.change("renew_claim", **values) == 1


def release_claim(session: Session, claimant: Claimant, term: int) -> None:
    """Release the claim, so that the next server need not wait."""
    session.change("release_claim", role=SERVER_ROLE, term=term, instance=claimant.instance)


def take_over(session: Session, seen: ClaimRow, claimant: Claimant) -> int | None:
    """Take the claim if its row is unchanged; return the new term, or None. Waits for active writes."""
    session.begin()
    session.rows("lock_claim", role=SERVER_ROLE)
    term, instance, renewals = seen.version
    changed = session.change(
        "take_claim",
        role=SERVER_ROLE,
        lease=LEASE_SECONDS,
        instance=claimant.instance,
        seen_term=term,
        seen_instance=instance,
        seen_renewals=renewals,
        **asdict(claimant.identity),
    )
    session.commit()
    return term + 1 if changed == 1 else None


def take_claim(
    session: Session,
    claimant: Claimant,
    *,
    wait: float,
    locked: bool = False,
    evict: Callable[[Session, ClaimRow], None] = lambda session, row: None,
) -> int:
    """Take the claim once it is free, and return its term. ClaimTaken: it is still renewed after `wait` seconds.

    `locked` promises that no other process of this machine can have the database open. `evict` ends the sessions of a
    server whose claim has expired: a frozen one may hold locks in the middle of a write.
    """
    begun = time.monotonic()
    seen, seen_at, warned = None, begun, False
    while True:
        row = read_claim(session)
        if row is None:
            session.begin()
            session.change("add_claim", role=SERVER_ROLE)
            session.commit()
            continue
        now = time.monotonic()
        if row.version != seen:
            seen, seen_at = row.version, now
        unrenewed = now - seen_at >= LEASE_SECONDS  # by our clock, because the database's may have been set back
        if row.lapsed or unrenewed or _has_ended(row, claimant, locked):
            if row.instance:
                evict(session, row)
            term = take_over(session, row, claimant)
            if term is not None:
                if row.instance and row.expires_at:
                    log.warning("%s did not release its claim and is gone; this server takes over", row)
                return term
        elif not warned:
            warned = True
            log.warning("%s has this database; waiting up to %g s for it to stop", row, wait)
        if now - begun >= wait:
            raise ClaimTaken(
                f"{row} serves this database, and only one server may: stop that server first, "
                "or give this one a database of its own (--db)"
            )
        time.sleep(POLL_SECONDS)  # there is no notification when the row changes


def _has_ended(row: ClaimRow, claimant: Claimant, locked: bool) -> bool:
    """Return True if the server of an unexpired claim has certainly ended."""
    here = claimant.identity.boot != "" and row.identity.boot == claimant.identity.boot
    return (locked and here) or row.identity.has_ended()
