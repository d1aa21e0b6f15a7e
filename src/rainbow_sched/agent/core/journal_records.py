"""Convert between local attempts and journal records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from typing import Any

from rainbow_sched.agent.core.values import LocalAttempt, PastAttempt, Phase, Result, StopReason
from rainbow_sched.model.attempt import AttemptState, Failure
from rainbow_sched.model.binding import GroupHosts
from rainbow_sched.model.errors import Corrupt, Invalid
from rainbow_sched.protocol.messages import ANY_HOST, AllowedHosts, AttemptRef, Offer

Record = Mapping[str, object]
_BESIDE_BODY = frozenset({"ref", "allowed", "unreadable"})  # unreadable offers are never accepted


def attempt_record(ref: AttemptRef, kind: str, **values: object) -> dict[str, object]:
    """Return a record about an attempt.

    `intent`: from here on the manager may have the job; `native`: the manager's id of it; `cancel`: it is to end.
    """
    return {"kind": kind, "job": ref.job, "n": ref.n, "token": ref.token, **values}


def offer_record(offer: Offer, *, kind: str = "offer", native: str = "") -> dict[str, object]:
    """Return the record of an accepted offer (`offer`) or of an attempt found in the manager by its tag (`adopt`).

    Older agents reject unknown keys in the body and ignore unknown keys beside it. So the body has only new keys that
    an older agent must not ignore: the hosts of a bound job.
    """
    body = {key: value for key, value in asdict(replace(offer, allowed=ANY_HOST)).items() if key not in _BESIDE_BODY}
    if offer.allowed.groups:
        body["hosts"] = [[one.group, one.hostlist] for one in offer.allowed.groups]
    record = attempt_record(offer.ref, kind, offer=body, native=native)
    return {**record, "hosts_checked": True} if offer.allowed.checked else record


def _offer(ref: AttemptRef, body: Mapping[str, object], record: Record) -> Offer:
    """Return the offer in a record; records of older agents have no hosts."""
    listed = body.get("hosts", [])
    if not isinstance(listed, list):
        raise ValueError("the hosts of an offer are no list")
    hosts = tuple(GroupHosts.parse(group, text) for group, text in listed)
    checked = bool(hosts or record.get("hosts_checked") or body.get("hosts_checked"))
    fields: dict[str, Any] = {key: value for key, value in body.items() if key not in ("hosts", "hosts_checked")}
    return Offer(ref=ref, allowed=AllowedHosts(hosts, checked), **fields)


def marked(record: dict[str, object], mark: str) -> dict[str, object]:
    """Return the record with the server's mark; older agents ignore it."""
    return {**record, "mark": mark} if mark else record


def last_mark(records: Iterable[Record]) -> str:
    marks = [str(record["mark"]) for record in records if "mark" in record]
    return marks[-1] if marks else ""


def ended_record(attempt: LocalAttempt) -> dict[str, object]:
    result, sizes = attempt.result, list(attempt.sizes)
    nodes = {"nodes": attempt.nodes} if attempt.nodes else {}
    return attempt_record(attempt.ref, "end", result=result_json(result), sizes=sizes, **nodes, **_code(result))


def forgotten_record(ref: AttemptRef, past: PastAttempt) -> dict[str, object]:
    """Return the record of an attempt that the server has stored as ended, or that was rejected."""
    return attempt_record(ref, "forget", result=result_json(past.result), reason=past.reason, **_code(past.result))


def result_json(result: Result | None) -> dict[str, object] | None:
    """Return a result as JSON values without the `code`, which older agents do not know; see `_code`."""
    return None if result is None else {key: value for key, value in asdict(result).items() if key != "code"}


def _code(result: Result | None) -> dict[str, object]:
    """Return the code of a result, to be stored beside it."""
    return {"code": result.code} if result is not None and result.code else {}


def _result(record: Record) -> Result | None:
    value = record["result"]
    if not isinstance(value, dict):
        return None
    failure = value["failure"]
    known = {"code": str(record.get("code", "")), **value}
    return Result(**{**known, "state": AttemptState(value["state"]), "failure": Failure(failure) if failure else None})


def compacted(
    attempts: Iterable[LocalAttempt], past: Mapping[AttemptRef, PastAttempt], mark: str
) -> list[dict[str, object]]:
    """Return the shortest list of records with the same state."""
    out: list[dict[str, object]] = [marked({"kind": "open"}, mark)] if mark else []
    out += [forgotten_record(ref, memory) for ref, memory in past.items()]
    for one in attempts:
        if one.phase is Phase.OFFERED:
            continue  # its record is still in the write queue
        out.append(offer_record(one.offer))
        if one.phase not in (Phase.ACCEPTED, Phase.CONFIRMED):
            out.append(attempt_record(one.ref, "intent"))
        if one.native:
            out.append(attempt_record(one.ref, "native", native=one.native))
        if one.stop_reason:
            out.append(attempt_record(one.ref, "cancel", wish=one.stop_reason.value))
        if one.phase is Phase.FINISHED:
            out.append(ended_record(one))
    return out


def restored(records: Iterable[Record]) -> tuple[dict[AttemptRef, LocalAttempt], dict[AttemptRef, PastAttempt]]:
    """Rebuild local and past attempts from the records of a journal."""
    attempts: dict[AttemptRef, LocalAttempt] = {}
    past: dict[AttemptRef, PastAttempt] = {}
    for number, record in enumerate(records, start=1):
        try:
            _replay(record, attempts, past)
        except (KeyError, TypeError, ValueError, Invalid) as problem:
            raise Corrupt(f"record {number} of the agent's journal makes no sense: {problem!r}") from problem
    return attempts, past


def _replay(record: Record, attempts: dict[AttemptRef, LocalAttempt], past: dict[AttemptRef, PastAttempt]) -> None:
    kind = record["kind"]
    if kind == "open":
        return
    ref = AttemptRef(int(str(record["job"])), int(str(record["n"])), str(record["token"]))
    if kind in ("offer", "adopt"):
        body = record["offer"]
        if not isinstance(body, dict):
            raise ValueError("an offer without a body")
        adopted = kind == "adopt"
        attempts[ref] = LocalAttempt(
            offer=_offer(ref, body, record),
            phase=Phase.SUBMITTED if adopted else Phase.ACCEPTED,
            native=str(record.get("native", "")),
        )
        return
    if kind == "forget":
        attempts.pop(ref, None)
        past[ref] = PastAttempt(result=_result(record), reason=str(record["reason"]))
        return
    one = attempts.get(ref)
    if one is None:
        return  # a compaction between the two records dropped the attempt
    if kind == "intent":
        attempts[ref] = replace(one, phase=Phase.INTENT)
    elif kind == "native":
        attempts[ref] = replace(one, phase=Phase.SUBMITTED, native=str(record["native"]))
    elif kind == "cancel":
        attempts[ref] = replace(one, stop_reason=StopReason(str(record["wish"])))
    elif kind == "end":
        sizes = record["sizes"]
        if not isinstance(sizes, list):
            raise ValueError("an end without sizes")
        ended = replace(one, phase=Phase.FINISHED, result=_result(record), sizes=(sizes[0], sizes[1]))
        attempts[ref] = replace(ended, nodes=str(record.get("nodes", "")))
    else:
        raise ValueError(f"a record of kind {kind!r}")
