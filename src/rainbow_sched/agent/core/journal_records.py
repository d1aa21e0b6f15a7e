"""The journal's records: how a held attempt is written down, and what a restarted agent makes of the lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from typing import Any

from rainbow_sched.agent.core.values import Held, Offer, Past, Phase, Ref, Result, Wish
from rainbow_sched.model.attempt import AttemptState, Failure
from rainbow_sched.model.binding import GroupHosts
from rainbow_sched.model.errors import Corrupt, Invalid

Record = Mapping[str, object]
_BESIDE_BODY = frozenset({"ref", "hosts", "hosts_checked", "unreadable"})  # what is unreadable is never taken


def _named(ref: Ref, kind: str) -> dict[str, object]:
    return {"kind": kind, "job": ref.job, "n": ref.n, "token": ref.token}


def offer_record(offer: Offer, *, kind: str = "offer", native: str = "") -> dict[str, object]:
    """An offer that will be accepted; as `adopt`, an attempt found in the manager by its tag.

    An older agent that takes this one's place refuses a body with a key that it does not know, and ignores one beside
    it. So only what it must not ignore stands in the body: the hosts of a bound job.
    """
    body = {key: value for key, value in asdict(replace(offer, hosts=())).items() if key not in _BESIDE_BODY}
    if offer.hosts:
        body["hosts"] = [[one.group, one.hostlist] for one in offer.hosts]
    record = {**_named(offer.ref, kind), "offer": body, "native": native}
    return {**record, "hosts_checked": True} if offer.hosts_checked else record


def _offer(ref: Ref, body: Mapping[str, object], record: Record) -> Offer:
    """An offer from its record; those of older agents say nothing of hosts."""
    listed = body.get("hosts", [])
    if not isinstance(listed, list):
        raise ValueError("the hosts of an offer are no list")
    checked = {"hosts_checked": bool(record.get("hosts_checked"))}
    fields: dict[str, Any] = checked | {key: value for key, value in body.items() if key != "hosts"}
    return Offer(ref=ref, hosts=tuple(GroupHosts.parse(group, text) for group, text in listed), **fields)


def intent_record(ref: Ref) -> dict[str, object]:
    """From this line on the manager may have it."""
    return _named(ref, "intent")


def marked(record: dict[str, object], mark: str) -> dict[str, object]:
    """A record with how far the server's database had come; agents that know no marks ignore it."""
    return {**record, "mark": mark} if mark else record


def last_mark(records: Iterable[Record]) -> str:
    """The newest mark in a journal."""
    marks = [str(record["mark"]) for record in records if "mark" in record]
    return marks[-1] if marks else ""


def native_record(ref: Ref, native: str) -> dict[str, object]:
    """The manager took it under this id."""
    return {**_named(ref, "native"), "native": native}


def cancelled_record(ref: Ref, wish: Wish) -> dict[str, object]:
    """It is to end."""
    return {**_named(ref, "cancel"), "wish": wish.value}


def ended_record(held: Held) -> dict[str, object]:
    """How it ended."""
    record = {**_named(held.ref, "end"), "result": result_json(held.result), "sizes": list(held.sizes)}
    record |= {"nodes": held.nodes} if held.nodes else {}
    return record | _code(held.result)


def forgotten_record(ref: Ref, past: Past) -> dict[str, object]:
    """It is over and the server knows, or it was never taken."""
    return {**_named(ref, "forget"), "result": result_json(past.result), "reason": past.reason} | _code(past.result)


def result_json(result: Result | None) -> dict[str, object] | None:
    """A result as JSON values, without what older agents do not know: see `_code`."""
    return None if result is None else {key: value for key, value in asdict(result).items() if key != "code"}


def _code(result: Result | None) -> dict[str, object]:
    """The code of a result, beside it in its record."""
    return {"code": result.code} if result is not None and result.code else {}


def _result(record: Record) -> Result | None:
    value = record["result"]
    if not isinstance(value, dict):
        return None
    failure = value["failure"]
    known = {"code": str(record.get("code", "")), **value}
    return Result(**{**known, "state": AttemptState(value["state"]), "failure": Failure(failure) if failure else None})


def compacted(held: Iterable[Held], past: Mapping[Ref, Past], mark: str) -> list[dict[str, object]]:
    """The shortest list of records that leads to the same place."""
    out: list[dict[str, object]] = [marked({"kind": "open"}, mark)] if mark else []
    out += [forgotten_record(ref, memory) for ref, memory in past.items()]
    for one in held:
        if one.phase is Phase.OFFERED:
            continue  # its own line is on the way
        out.append(offer_record(one.offer))
        if one.phase not in (Phase.ACCEPTED, Phase.CONFIRMED):
            out.append(intent_record(one.ref))
        if one.native:
            out.append(native_record(one.ref, one.native))
        if one.wish:
            out.append(cancelled_record(one.ref, one.wish))
        if one.phase is Phase.FINISHED:
            out.append(ended_record(one))
    return out


def restored(records: Iterable[Record]) -> tuple[dict[Ref, Held], dict[Ref, Past]]:
    """What a restarted agent holds and remembers, from the lines of its journal."""
    held: dict[Ref, Held] = {}
    past: dict[Ref, Past] = {}
    for number, record in enumerate(records, start=1):
        try:
            _replay(record, held, past)
        except (KeyError, TypeError, ValueError, Invalid) as problem:
            raise Corrupt(f"record {number} of the agent's journal makes no sense: {problem!r}") from problem
    return held, past


def _replay(record: Record, held: dict[Ref, Held], past: dict[Ref, Past]) -> None:
    kind = record["kind"]
    if kind == "open":
        return
    ref = Ref(int(str(record["job"])), int(str(record["n"])), str(record["token"]))
    if kind in ("offer", "adopt"):
        body = record["offer"]
        if not isinstance(body, dict):
            raise ValueError("an offer without a body")
        adopted = kind == "adopt"
        held[ref] = Held(
            offer=_offer(ref, body, record),
            phase=Phase.SUBMITTED if adopted else Phase.ACCEPTED,
            native=str(record.get("native", "")),
        )
        return
    if kind == "forget":
        held.pop(ref, None)
        past[ref] = Past(result=_result(record), reason=str(record["reason"]))
        return
    one = held.get(ref)
    if one is None:
        return  # the line outlived its attempt: a compaction ran between the two
    if kind == "intent":
        held[ref] = replace(one, phase=Phase.INTENT)
    elif kind == "native":
        held[ref] = replace(one, phase=Phase.SUBMITTED, native=str(record["native"]))
    elif kind == "cancel":
        held[ref] = replace(one, wish=Wish(str(record["wish"])))
    elif kind == "end":
        sizes = record["sizes"]
        if not isinstance(sizes, list):
            raise ValueError("an end without sizes")
        ended = replace(one, phase=Phase.FINISHED, result=_result(record), sizes=(sizes[0], sizes[1]))
        held[ref] = replace(ended, nodes=str(record.get("nodes", "")))
    else:
        raise ValueError(f"a record of kind {kind!r}")
