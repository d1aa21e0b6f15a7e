"""An older agent can take the place of this one: it reads the journal, but for what it would have to honour."""

from __future__ import annotations

from dataclasses import replace

from rainbow_sched.agent.core.journal_records import compacted, ended_record, forgotten_record, offer_record, restored
from rainbow_sched.agent.core.values import LocalAttempt, PastAttempt, Phase, Result
from rainbow_sched.agent.runtime.journal import line, parse
from rainbow_sched.model.attempt import AttemptState
from rainbow_sched.model.binding import WRONG_NODES, GroupHosts
from rainbow_sched.protocol.messages import AllowedHosts, AttemptRef, Offer

# What agents up to 4292f3f know. They refuse a journal with any other key in these places.
OFFER = {"name", "owner", "spec", "terms", "lease", "priority", "array_index"}
RESULT = {"state", "exit_code", "failure", "reason", "started_at", "ended_at"}
REF = AttemptRef(7, 1, "token")
UNBOUND = Offer(ref=REF, name="job", spec="{}", allowed=AllowedHosts(checked=True))
RETURNED = Result(state=AttemptState.RETURNED, reason="other nodes", code=WRONG_NODES)


def test_what_is_new_stands_beside_what_older_agents_read() -> None:
    ended = LocalAttempt(offer=UNBOUND, phase=Phase.FINISHED, result=RETURNED, nodes="n1", ended_clock=0.0)
    offered, end = offer_record(UNBOUND), ended_record(ended)
    forgotten = forgotten_record(REF, PastAttempt(result=RETURNED))
    assert set(offered["offer"]) == OFFER  # type: ignore[call-overload]  # a mapping
    assert set(end["result"]) == set(forgotten["result"]) == RESULT  # type: ignore[call-overload]  # mappings


def test_nothing_of_it_is_lost_to_an_agent_that_knows_it() -> None:
    bound = replace(
        UNBOUND, ref=AttemptRef(8, 1, "other"), allowed=AllowedHosts((GroupHosts.parse(0, "n[1-2]"),), checked=True)
    )
    held = (
        LocalAttempt(offer=UNBOUND, phase=Phase.FINISHED, result=RETURNED, nodes="n1"),
        LocalAttempt(offer=bound, phase=Phase.ACCEPTED),
    )
    past = {AttemptRef(9, 1, "over"): PastAttempt(result=RETURNED)}
    records, _ = parse(b"".join(map(line, compacted(held, past, ""))), "journal")
    assert restored(records) == ({one.ref: one for one in held}, past)


def test_journals_of_before_that_are_read_too() -> None:
    bound = replace(UNBOUND, allowed=AllowedHosts((GroupHosts.parse(0, "n[1-2]"),), checked=True))
    record = offer_record(bound)
    del record["hosts_checked"]
    body = {**record["offer"], "hosts_checked": True, "unreadable": ""}  # type: ignore[dict-item]  # a mapping
    end = ended_record(LocalAttempt(offer=bound, phase=Phase.FINISHED, result=RETURNED))
    code = end.pop("code")
    end["result"] = {**end["result"], "code": code}  # type: ignore[dict-item]  # a mapping
    held, _ = restored([{**record, "offer": body}, end])
    assert (held[REF].offer, held[REF].result) == (bound, RETURNED)


def test_an_older_agent_does_not_overlook_that_a_job_is_bound() -> None:
    bound = replace(UNBOUND, allowed=AllowedHosts((GroupHosts.parse(0, "n[1-2]"),), checked=True))
    assert set(offer_record(bound)["offer"]) - OFFER == {"hosts"}  # type: ignore[call-overload]  # a mapping
