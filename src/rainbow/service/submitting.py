"""Submit: many submissions that arrive together are decided one after another and stored in one write.

The answer is given only when the job, its decision and its events are durable. A client
token makes it safe to ask again: the same token and body give the same job.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from rainbow.model.decision import Chosen, Decision, Refuse, Stored, Wait
from rainbow.model.errors import Conflict, Invalid, NotFound, RainbowError
from rainbow.model.job import MAX_NAME, Hold, Job, JobState, Terms
from rainbow.model.request import Request
from rainbow.scheduler.decide import decide, wants_bids
from rainbow.service import lifecycle
from rainbow.service.access import reach
from rainbow.service.auditing import Actor, acting, note_submitted
from rainbow.service.core import Core
from rainbow.service.deciding import Ask, pinned, question, shape_of, unpinned
from rainbow.service.effects import Effects
from rainbow.service.hub import EVENTS, cluster_bell
from rainbow.service.jobs import reaches
from rainbow.store.base import Dependency, Draft, Tx

MAX_BATCH = 10_000
BETWEEN = 16  # decisions of a batch before other calls have a turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """One job as it was handed in, already read and checked."""

    owner: str
    request: Request
    spec: str
    source: str = ""
    name: str = ""
    terms: Terms = field(default_factory=Terms)
    client_token: str = ""
    waits_for: tuple[Dependency, ...] = ()

    def __post_init__(self) -> None:
        if len(self.name) > MAX_NAME or not self.name.isprintable():
            raise Invalid(f"a job's name has at most {MAX_NAME} printable characters")
        if len(self.client_token) > MAX_NAME:
            raise Invalid(f"a client token has at most {MAX_NAME} characters")


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a submitter is told; the job is stored."""

    id: int
    state: JobState
    cluster: str
    reason: str
    again: bool = False  # the same client token had made it before


@dataclass(slots=True)
class _Bundle:
    """Submissions that share one write, and where their answers go."""

    submissions: list[Submission]
    answer: asyncio.Future[list[Receipt]]
    by: Actor = field(default_factory=acting)


class Intake:
    """Collects what arrives while a write is under way, and stores it together with the next."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._arrived: list[_Bundle] = []
        self._working: asyncio.Task[None] | None = None

    async def submit(self, submissions: Sequence[Submission]) -> list[Receipt]:
        """Store all of them or none; answer when they are durable."""
        if len(submissions) > MAX_BATCH:
            raise Invalid(f"a batch has at most {MAX_BATCH} jobs; send {len(submissions)} in several calls")
        bundle = _Bundle(list(submissions), asyncio.get_running_loop().create_future())
        self._arrived.append(bundle)
        if self._working is None or self._working.done():
            self._working = asyncio.create_task(self._work())
        return await asyncio.shield(bundle.answer)

    async def _work(self) -> None:
        while self._arrived:
            taken, self._arrived = self._arrived, []
            await _store(self._core, taken)


async def _store(core: Core, bundles: list[_Bundle]) -> None:
    """Decide each bundle in order, write them all at once, answer each."""
    prepared: list[tuple[_Bundle, list[Draft]]] = []
    for bundle in bundles:
        try:
            prepared.append((bundle, await _drafts(core, bundle.submissions)))
        except RainbowError as error:
            _fail(bundle, error)
    if not prepared:
        return

    def work(tx: Tx) -> tuple[list[list[Receipt] | RainbowError], Effects]:
        effects = Effects()
        outcomes = [_insert(tx, effects, core, bundle.by, drafts) for bundle, drafts in prepared]
        made = zip([bundle.by for bundle, _ in prepared], map(_fresh_ids, outcomes), strict=True)
        note_submitted(tx, made, core.clock.now())
        return outcomes, effects

    try:
        outcomes, effects = await core.store.write(work)
    except Exception as error:  # whatever the store raises, every submitter in this write gets an answer
        for _, drafts in prepared:
            _undo(core, drafts)
        if len(prepared) > 1 and isinstance(error, RainbowError):
            for bundle, _ in prepared:  # one of them spoiled it for all: each on its own
                await _store(core, [bundle])
        else:
            for bundle, _ in prepared:
                _fail(bundle, error)
        return
    for (bundle, drafts), outcome in zip(prepared, outcomes, strict=True):
        _answer(core, bundle, drafts, outcome)
    core.carry_out(effects)
    core.hub.ring(EVENTS)


async def _drafts(core: Core, submissions: list[Submission]) -> list[Draft]:
    """Decide one after the other; a long batch lets other calls go on in between."""
    made: list[Draft] = []
    try:
        for submission in submissions:
            made.append(_draft(core, submission))
            if len(made) % BETWEEN == 0:
                await asyncio.sleep(0)
    except RainbowError:
        _undo(core, made)
        raise
    return made


def _fresh_ids(outcome: list[Receipt] | RainbowError) -> list[int]:
    return [] if isinstance(outcome, RainbowError) else [receipt.id for receipt in outcome if not receipt.again]


def _answer(core: Core, bundle: _Bundle, drafts: list[Draft], outcome: list[Receipt] | RainbowError) -> None:
    if isinstance(outcome, RainbowError):
        _undo(core, drafts)
        _fail(bundle, outcome)
        return
    for draft, receipt in zip(drafts, outcome, strict=True):
        if receipt.again:
            _undo(core, [draft])
        else:
            _settle(core, draft, receipt.id)
    if not bundle.answer.done():
        bundle.answer.set_result(outcome)


def _fail(bundle: _Bundle, error: BaseException) -> None:
    if not bundle.answer.done():
        bundle.answer.set_exception(error)
        bundle.answer.exception()  # its caller may be gone; that is no reason for a warning


def _insert(tx: Tx, fx: Effects, core: Core, by: Actor, drafts: list[Draft]) -> list[Receipt] | RainbowError:
    """One bundle inside the shared transaction; a refusal concerns this bundle alone, and all of it."""
    try:
        known = _known(tx, drafts)
        fresh = [draft for draft in drafts if (draft.owner, draft.client_token) not in known]
        for owner, coming in Counter(draft.owner for draft in fresh).items():
            core.quota.check(tx, owner, coming)
        _check_dependencies(tx, by, fresh)
        ids = iter(tx.add_jobs(fresh))
    except RainbowError as error:
        return error
    receipts = []
    for draft in drafts:
        job = known.get((draft.owner, draft.client_token))
        if job is not None:
            receipts.append(Receipt(job.id, job.state, job.cluster, job.reason, again=True))
        elif draft.waits_for:
            receipts.append(_depending(tx, fx, next(ids), draft.submitted_at))
        else:
            receipts.append(Receipt(next(ids), draft.state, draft.cluster, draft.reason))
    return receipts


def _check_dependencies(tx: Tx, by: Actor, fresh: list[Draft]) -> None:
    """A job waits for jobs that its submitter may see; any other is answered like one that does not exist."""
    for id, owner in sorted({(waited.job, draft.owner) for draft in fresh for waited in draft.waits_for}):
        job = tx.job(id)
        if job is None or (job.owner != owner and not reaches(tx, reach(by.principal, "read"), job)):
            raise NotFound(f"there is no job {id} to wait for")


def _depending(tx: Tx, fx: Effects, id: int, now: float) -> Receipt:
    """What a new job waits for may have ended before: nobody would tell it later."""
    job = lifecycle.need_job(tx, id)
    if job.state is JobState.HELD and job.hold is Hold.DEPENDENCY:
        job = lifecycle.settle_dependent(tx, fx, job, now)
    return Receipt(job.id, job.state, job.cluster, job.reason)


def _known(tx: Tx, drafts: list[Draft]) -> dict[tuple[str, str], Job]:
    """Jobs that were submitted before under the same client tokens."""
    tokens: dict[str, list[str]] = defaultdict(list)
    for draft in drafts:
        if draft.client_token:
            tokens[draft.owner].append(draft.client_token)
    found: dict[tuple[str, str], Job] = {}
    for owner, wanted in tokens.items():
        if len(set(wanted)) < len(wanted):
            raise Invalid("two jobs of one batch carry the same client token")
        found.update(((owner, token), job) for token, job in tx.jobs_by_tokens(owner, wanted).items())
    for draft in drafts:
        job = found.get((draft.owner, draft.client_token))
        if job is not None and not _same_body(tx, job, draft):
            raise Conflict(f"client token {draft.client_token!r} was used for another job, {job.id}; take a new token")
    return found


def _same_body(tx: Tx, job: Job, draft: Draft) -> bool:
    """True if the draft asks for the job that was made; which registration of a cluster its names mean may differ."""
    was, now = (replace(terms, opened=tuple(map(unpinned, terms.opened))) for terms in (job.terms, draft.terms))
    return (job.spec, job.name, was) == (draft.spec, draft.name, now) and set(tx.dependencies(job.id)) == set(
        draft.waits_for
    )


def _draft(core: Core, submission: Submission) -> Draft:
    """What will be stored: held, waiting, given to a cluster at once, or left to the decider if bids are wanted."""
    now = core.clock.now()
    if submission.terms.opened:
        submission = replace(submission, terms=pinned(core.fleet, submission.terms))
    held = _held(submission, now)
    if held is not None:
        return _make(submission, now, state=JobState.HELD, hold=held[0], reason=held[1])
    asked = question(core, ask_of(submission, core.ids.seed()))
    if wants_bids(asked, core.policies):
        return _make(submission, now, reason="waits for its decision")
    return _decided(core, submission, decide(asked, core.policies), now)


def ask_of(submission: Submission, seed: int) -> Ask:
    """The question that a submission puts to the fleet."""
    return Ask(request=submission.request, spec=submission.spec, terms=submission.terms, seed=seed)


def _held(submission: Submission, now: float) -> tuple[Hold, str] | None:
    terms = submission.terms
    if terms.hold:
        return Hold.USER, "held by its owner; release it with: rainbow release JOB"
    if submission.waits_for:
        return Hold.DEPENDENCY, "waits for " + ", ".join(f"{d.kind}:{d.job}" for d in submission.waits_for)
    if terms.start_after is not None and terms.start_after > now:
        return Hold.TIME, "waits for its start time"
    return None


def _decided(core: Core, submission: Submission, decision: Decision, now: float) -> Draft:
    record, outcome = Stored.of(decision), decision.outcome
    if isinstance(outcome, Chosen):
        draft = _make(
            submission,
            now,
            state=JobState.BOUND,
            cluster=outcome.cluster,
            token=core.ids.fence(),
            reason=f"given to {outcome.cluster}",
            decision=record,
        )
        core.fleet.place(outcome.cluster, draft.token, submission.request)
        return draft
    reason = "; ".join(outcome.reasons)
    if isinstance(outcome, Refuse):
        return _make(submission, now, state=JobState.INFEASIBLE, reason=reason, decision=record)
    assert isinstance(outcome, Wait)
    return _make(submission, now, state=JobState.HELD, hold=Hold.NOTHING_FITS, reason=reason, decision=record)


def _make(submission: Submission, now: float, **changes: object) -> Draft:
    decided = changes.get("decision") is not None
    values: dict[str, object] = {
        "owner": submission.owner,
        "name": submission.name,
        "spec": submission.spec,
        "source": submission.source,
        "terms": submission.terms,
        "client_token": submission.client_token,
        "submitted_at": now,
        "evaluations": int(decided),
        "evaluated_at": now if decided else None,
        "waits_for": submission.waits_for,
        **changes,
    }
    return Draft(**values)  # type: ignore[arg-type]  # the keys above are the draft's own, with their types


def _undo(core: Core, drafts: list[Draft]) -> None:
    """Give back what was set aside for jobs that were not stored."""
    for draft in drafts:
        if draft.cluster:
            core.fleet.take_back(draft.cluster, draft.token)


def _settle(core: Core, draft: Draft, id: int) -> None:
    """The job is stored: wake its cluster, or let it wait."""
    if draft.state is JobState.BOUND:
        core.hub.ring(cluster_bell(draft.cluster))
    elif draft.state is JobState.QUEUED:
        core.shelf.add_queued([id])
    elif draft.hold is Hold.NOTHING_FITS:
        core.shelf.put(id, draft.terms.priority, shape_of(draft.spec, draft.terms))
