"""An explicit-state model of how server and agents agree on one job; `test_protocol_model.py` searches all its states.

One job, two clusters, a few attempts. Any answer to a Sync may be lost, an agent may stop between any two steps (its
journal survives), any timer may fire whenever the server believes that it may, the user may cancel at any time, the
manager may give a job nodes on which it must not run, and the server's database may be replaced by an older copy of
itself once. `Rules` switches single rules of docs/protocol.md off; each must then have a counterexample.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

CLUSTERS = (0, 1)
LIVE = frozenset({"offered", "leased", "accepted", "submitted", "running"})
BEFORE_CONFIRM = frozenset({"offered", "leased"})
OVER = frozenset({"done", "dead", "returned"})  # states in an agent's journal that an attempt never leaves
CLOSED = frozenset({"succeeded", "cancelled"})
OPEN = frozenset({"queued", "bound", "cancelling"})


@dataclass(frozen=True, slots=True)
class Rules:
    """Which rules hold, and what may happen beside the usual faults."""

    attempts: int = 3  # at most so many
    confirm: bool = True  # R4: submit only what the server has confirmed
    look_up: bool = True  # R5: after a crash look for the tag before submitting again
    fence: bool = True  # R2: a report of an attempt that does not count any more changes nothing
    check_nodes: bool = True  # R13: the wrapper compares the nodes it got before it starts the command
    remember: bool = True  # R14: an agent can still tell of attempts that ended and were stored
    wait_for_reports: bool = True  # R14: a restored server binds and confirms nothing before every cluster has reported
    supersede: bool = True  # R14: an adopted attempt ends the older ones that the backup still has
    adopt_confirmed_only: bool = True  # R14: what was not confirmed before the restore is not confirmed after it
    lost: bool = False  # the server may give up a silent run that may be rerun
    wrong_nodes: bool = False  # the manager may place a job on nodes that were not matched
    restore: bool = False  # the database may be replaced by an older copy


class Attempt(NamedTuple):
    """An attempt as the server has stored it."""

    id: int  # fence: never given twice, also not after a restore
    cluster: int
    state: str


class Entry(NamedTuple):
    """An attempt in an agent's journal, and the job under its tag in the manager."""

    id: int
    journal: str  # accepted, confirmed, intent, submitted, running, or one of OVER
    job: str = "-"  # -, queued, running, done, killed, refused
    stored: bool = False  # the server has acknowledged the end


Entries = frozenset[Entry]


class World(NamedTuple):
    """One state of everything."""

    job: str = "queued"  # queued, bound, cancelling, held, succeeded, cancelled
    attempts: tuple[Attempt, ...] = ()
    agents: tuple[Entries, ...] = (frozenset(), frozenset())
    next_id: int = 0
    runs: int = 0  # how often the command was started
    misplaced: bool = False  # the command was started on nodes that were not matched
    waived: bool = False  # a run was given up, or its owner allowed another one
    copy: tuple[str, tuple[Attempt, ...]] | None = None  # the backup
    restored: bool = False
    silent: frozenset[int] = frozenset()  # clusters that have not reported since the restore


def violation(world: World) -> str | None:
    """The promise that this state breaks, or None."""
    live = [a for a in world.attempts if a.state in LIVE]
    under_way = any(e.job in ("queued", "running") for entries in world.agents for e in entries)
    if world.runs > 1 and not world.waived:
        return "two executions, and nobody allowed a second one"
    if world.misplaced:
        return "the command ran on nodes that were not matched"
    if len(live) > 1:
        return "two live attempts"
    if world.job == "cancelled" and under_way and not (world.waived or world.restored):
        return "cancelled while still running"
    if world.job in CLOSED and live:
        return "closed by a stale attempt while another one is live"
    if world.job == "succeeded" and world.runs == 0:
        return "success without execution"
    return None


def steps(world: World, rules: Rules) -> Iterator[tuple[str, World]]:
    """Everything that can happen next."""
    yield from _server(world, rules)
    if rules.restore:
        yield from _restore(world, rules)
    for cluster in CLUSTERS:
        yield from _sync(world, cluster, rules)
        for entry in world.agents[cluster]:
            yield from _agent(world, cluster, entry, rules)


def _server(world: World, rules: Rules) -> Iterator[tuple[str, World]]:
    live = [a for a in world.attempts if a.state in LIVE]
    blocked = rules.wait_for_reports and world.silent
    room = world.next_id < rules.attempts
    if world.job == "queued" and not live and room and not blocked:
        for cluster in CLUSTERS:
            made = Attempt(world.next_id, cluster, "offered")
            yield (
                f"bind to {cluster}",
                world._replace(job="bound", attempts=(*world.attempts, made), next_id=world.next_id + 1),
            )
    if world.job in ("queued", "bound"):
        yield "user cancels", world._replace(job="cancelling")
    if blocked:  # what was only offered when the backup was made may have been confirmed since
        return
    if world.job == "cancelling":
        attempts = world.attempts
        for attempt in live:
            if attempt.state in BEFORE_CONFIRM:
                attempts = _moved(attempts, attempt.id, "withdrawn")
        if not any(a.state in LIVE for a in attempts):
            yield "cancelled", world._replace(job="cancelled", attempts=attempts)
        elif attempts != world.attempts:
            yield "withdraw, to cancel", world._replace(attempts=attempts)
    if world.job != "bound":
        return
    for attempt in live:
        if attempt.state == "leased":
            yield "lapse", world._replace(job="queued", attempts=_moved(world.attempts, attempt.id, "lapsed"))
        if attempt.state in BEFORE_CONFIRM and room:
            yield "withdraw", world._replace(job="queued", attempts=_moved(world.attempts, attempt.id, "withdrawn"))
        if attempt.state not in BEFORE_CONFIRM and rules.lost:
            gone = _moved(world.attempts, attempt.id, "lost")
            yield "give up", world._replace(job="queued", attempts=gone, waived=True)


def _restore(world: World, rules: Rules) -> Iterator[tuple[str, World]]:
    if world.copy is None and not world.restored:
        yield "backup", world._replace(copy=(world.job, world.attempts))
    if world.copy is not None and not world.restored:
        job, attempts = world.copy
        yield (
            "restore",
            world._replace(job=job, attempts=attempts, copy=None, restored=True, silent=frozenset(CLUSTERS)),
        )
    for cluster in world.silent:  # an administrator says that it will not return: its job may have run
        job = "held" if world.job in OPEN else world.job
        attempts = tuple(
            a._replace(state="lost") if a.cluster == cluster and a.state in LIVE else a for a in world.attempts
        )
        yield (
            f"write {cluster} off",
            world._replace(job=job, attempts=attempts, silent=world.silent - {cluster}),
        )
    if world.job == "held" and not world.silent and not any(a.state in LIVE - BEFORE_CONFIRM for a in world.attempts):
        withdrawn = tuple(a._replace(state="withdrawn") if a.state in BEFORE_CONFIRM else a for a in world.attempts)
        yield "owner releases", world._replace(job="queued", attempts=withdrawn, waived=True)


def _sync(world: World, cluster: int, rules: Rules) -> Iterator[tuple[str, World]]:
    """The server applies what the agent says and answers; the answer may be lost."""
    entries = {entry.id: entry for entry in world.agents[cluster]}
    heard, kills, confirms, stored = _heard(world, cluster, entries, rules)
    offers = []
    if heard.job == "bound" and not (rules.wait_for_reports and cluster in world.silent):
        for attempt in heard.attempts:
            if attempt.cluster == cluster and attempt.state in BEFORE_CONFIRM and attempt.id not in entries:
                offers.append(attempt.id)
                heard = heard._replace(attempts=_moved(heard.attempts, attempt.id, "leased"))
    if heard.job == "cancelling":
        kills |= {a.id for a in heard.attempts if a.cluster == cluster and a.state in LIVE - BEFORE_CONFIRM}
    if heard != world:
        yield f"sync {cluster}, answer lost", heard
    for id in offers:
        entries[id] = Entry(id, "accepted" if rules.confirm else "confirmed")
    for id in confirms:
        entries[id] = entries[id]._replace(journal="confirmed")
    for id in stored:
        if rules.remember:
            entries[id] = entries[id]._replace(stored=True)
        else:
            del entries[id]
    for id in kills & entries.keys():
        entries[id] = _killed(entries[id])
    after = _with(heard, cluster, frozenset(entries.values()))
    if after != world:
        yield f"sync {cluster}", after


def _heard(
    world: World, cluster: int, entries: dict[int, Entry], rules: Rules
) -> tuple[World, set[int], set[int], set[int]]:
    """The world after the server has taken the agent's reports; what it kills, confirms and has stored."""
    kills: set[int] = set()
    confirms: set[int] = set()
    stored: set[int] = set()
    unreported = cluster in world.silent
    for id, entry in sorted(entries.items(), reverse=True):  # the newest attempt supersedes those before it
        known = next((a for a in world.attempts if a.id == id), None)
        if known is None:  # given out after the backup was made
            if not (unreported and rules.wait_for_reports):
                if entry.journal in OVER:
                    stored.add(id)
                else:
                    kills.add(id)
                continue
            newer = any(a.id > id for a in world.attempts)  # then this one had ended, or was given up
            if newer or (
                rules.adopt_confirmed_only and entry.journal == "accepted"
            ):  # before the confirm nothing has run
                stored.add(id) if entry.journal in OVER else kills.add(id)
                continue
            world = _adopted(world, Attempt(id, cluster, "accepted"), rules)
            known = world.attempts[-1]
        elif entry.stored and not world.restored:
            continue
        if known.state not in LIVE:
            if entry.journal in OVER:
                stored.add(id)
                if entry.journal == "done" and not rules.fence and world.job in OPEN:
                    world = world._replace(job="succeeded", attempts=_moved(world.attempts, id, "succeeded"))
            else:
                kills.add(id)
            continue
        if entry.journal == "accepted" and rules.wait_for_reports and world.silent - {cluster}:
            continue  # a newer attempt may be under way at a cluster that has not reported
        if entry.journal == "accepted" and world.job == "held":
            world = world._replace(attempts=_moved(world.attempts, id, "withdrawn"))
            kills.add(id)
            continue
        world = _reported(world, entry)
        if entry.journal == "accepted":
            confirms.add(id)
        if entry.journal in OVER:
            stored.add(id)
    if unreported:
        for attempt in world.attempts:  # of what it never had, or has no record of any more
            if attempt.cluster == cluster and attempt.id not in entries and attempt.state in LIVE - BEFORE_CONFIRM:
                job = "queued" if world.job == "bound" else world.job
                world = world._replace(job=job, attempts=_moved(world.attempts, attempt.id, "returned"))
        world = world._replace(silent=world.silent - {cluster})
    return world, kills, confirms, stored


def _adopted(world: World, attempt: Attempt, rules: Rules) -> World:
    """Take in an attempt that the backup does not have: those before it had ended when it was made."""
    ended = LIVE if rules.supersede else frozenset()
    older = tuple(a._replace(state="superseded") if a.state in ended else a for a in world.attempts)
    job = "bound" if world.job in ("queued", "held") else world.job
    return world._replace(job=job, attempts=(*older, attempt))


def _reported(world: World, entry: Entry) -> World:
    """The report of a live attempt moves it, and its end moves the job."""
    to = {
        "accepted": "accepted",
        "confirmed": "accepted",
        "intent": "accepted",
        "submitted": "submitted",
        "running": "running",
        "done": "succeeded",
        "dead": "cancelled",
        "returned": "returned",
    }[entry.journal]
    job = world.job
    if to in ("accepted", "submitted", "running") and job == "held":
        job = "bound"
    if to == "succeeded" and job in ("bound", "cancelling", "held"):
        job = "succeeded"
    elif to == "cancelled" and world.restored and job in ("bound", "held"):
        job = "cancelled"  # the backup does not know who ended it, and it may have run
    elif to in ("cancelled", "returned") and job == "bound":
        job = "queued"
    return world._replace(job=job, attempts=_moved(world.attempts, entry.id, to))


def _agent(world: World, cluster: int, entry: Entry, rules: Rules) -> Iterator[tuple[str, World]]:
    """What the agent and its manager do by themselves."""

    def put(journal: str, job: str) -> World:
        entries = (world.agents[cluster] - {entry}) | {entry._replace(journal=journal, job=job)}
        return _with(world, cluster, entries)

    journal, job = entry.journal, entry.job
    if journal == "confirmed":
        yield "intent", put("intent", job)
    if journal == "intent" and job == "-":
        yield "submit", put("intent", "queued")
    if journal == "intent" and job != "-":
        yield "record the id, or find it by tag", put("submitted", job)
        if not rules.look_up and job in ("queued", "running", "done") and world.runs < 3:
            yield "submit again", put("intent", "queued")
    if job == "queued":
        yield "start", put(journal, "running")._replace(runs=world.runs + 1)
        if rules.wrong_nodes:
            if rules.check_nodes:
                yield "refuse to start on wrong nodes", put(journal, "refused")
            else:
                yield "start on wrong nodes", put(journal, "running")._replace(runs=world.runs + 1, misplaced=True)
    if job == "running":
        yield "exit", put(journal, "done")
    if journal == "submitted" and job == "running":
        yield "see it run", put("running", job)
    if journal in ("submitted", "running") and job == "done":
        yield "see its end", put("done", job)
    if journal in ("submitted", "running") and job == "refused":
        yield "see that it did not start", put("returned", job)


def _killed(entry: Entry) -> Entry:
    if entry.journal in OVER:
        return entry
    if entry.job in ("queued", "running"):
        return entry._replace(journal="dead", job="killed")
    if entry.job == "done":
        return entry._replace(journal="done")
    return entry._replace(journal="returned")  # it never reached the manager


def _moved(attempts: tuple[Attempt, ...], id: int, state: str) -> tuple[Attempt, ...]:
    return tuple(a._replace(state=state) if a.id == id else a for a in attempts)


def _with(world: World, cluster: int, entries: Entries) -> World:
    agents = tuple(entries if c == cluster else world.agents[c] for c in CLUSTERS)
    return world._replace(agents=agents)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a search over all states found."""

    states: int
    broken: str | None  # the first promise that was broken
    stuck: int  # states from which the job can never end
    trace: tuple[str, ...]  # how to get there


def search(rules: Rules) -> Verdict:
    """Visit every state; stop at the first broken promise."""
    first = World()
    came: dict[World, tuple[World, str] | None] = {first: None}
    before: dict[World, list[World]] = {}
    queue = deque([first])
    while queue:
        world = queue.popleft()
        broken = violation(world)
        if broken is not None:
            return Verdict(len(came), broken, 0, _trace(came, world))
        for name, after in steps(world, rules):
            before.setdefault(after, []).append(world)
            if after not in came:
                came[after] = (world, name)
                queue.append(after)
    ends = deque(world for world in came if world.job in CLOSED)
    good = set(ends)
    while ends:
        for world in before.get(ends.popleft(), ()):
            if world not in good:
                good.add(world)
                ends.append(world)
    stuck = [w for w in came if w not in good and w.next_id < rules.attempts]
    return Verdict(len(came), None, len(stuck), _trace(came, stuck[0]) if stuck else ())


def _trace(came: dict[World, tuple[World, str] | None], world: World) -> tuple[str, ...]:
    found = []
    while (step := came[world]) is not None:
        world, name = step
        found.append(name)
    return tuple(reversed(found))
