"""Users that submit, release and cancel jobs over an unreliable network and retry until they get an answer."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from random import Random
from typing import Any

from rainbow_sched.jobspecs.preparation import prepare
from rainbow_sched.model.cluster import Standing
from rainbow_sched.model.credential import CredentialKind, Principal
from rainbow_sched.model.errors import Conflict, NotFound, RainbowError, Unavailable
from rainbow_sched.model.job import Hold, Job, Terms
from rainbow_sched.model.job_state import JobState
from rainbow_sched.model.prepared_request import PreparedRequest
from rainbow_sched.model.request import Count, Group, Level, Request, Task
from rainbow_sched.service.agents import offers
from rainbow_sched.service.assembly import Service
from rainbow_sched.service.clusters import registration
from rainbow_sched.service.maintenance import restore
from rainbow_sched.service.submission.intake import Submission
from rainbow_sched.service.submission.new_jobs import Receipt
from rainbow_sched.service.views import jobs
from rainbow_sched.simulation.faults import Link
from rainbow_sched.simulation.manager import DISK_REQUEST, FOR_EVER
from rainbow_sched.simulation.server import SimServer
from rainbow_sched.simulation.witness import Witness
from rainbow_sched.store.base import Dependency, ReportState

OWNERS = ("ana", "ben")
ADMIN = Principal(name="admin", kind=CredentialKind.ADMIN, scopes=frozenset({"admin"}))
TOO_LARGE = 64  # cores that no cluster has
SHORTEST = 14.0  # seconds of silence after which a run may be given up
RETRY_SECONDS = 4.0  # until a call without an answer is repeated
Work = Callable[[Service], Coroutine[Any, Any, Any]]


def request_of(cores: int) -> PreparedRequest:
    """Return a request for one node with `cores` cores."""
    level = Level(type="node", count=Count(1), inside=(Level(type="core", count=Count(cores)),))
    return prepare(Request(groups=(Group(levels=(level,)),), tasks=(Task(command=("true",)),)))


REQUESTS = {cores: request_of(cores) for cores in (1, 2, 3, 4, TOO_LARGE)}
CORES = {request.text: cores for cores, request in REQUESTS.items()} | {DISK_REQUEST.text: 0}


@dataclass(slots=True, kw_only=True)
class Users:
    """All users and administrators."""

    rng: Random
    wire: Link
    server: SimServer
    witness: Witness
    clusters: tuple[str, ...]
    luck: Random  # for requests other than cores
    known: list[int] = field(default_factory=list)  # acknowledged jobs
    cancelled: set[int] = field(default_factory=set)  # jobs with an acknowledged cancellation
    waiting: int = 0  # calls without an answer yet
    tokens: int = 0

    def act(self) -> None:
        luck = self.rng.random()
        if luck < 0.55 or not self.known:
            self.submit()
        elif luck < 0.75:
            self.cancel(self.rng.choice(self.known))
        elif luck < 0.85:
            self.release(self.rng.choice(self.known))
        elif luck < 0.92:
            self.receive(self.rng.choice(self.clusters))
        else:
            self.drain(self.rng.choice(self.clusters), self.rng.random() < 0.5)

    # --- submit ---

    def submit(self) -> None:
        """Submit one or a few jobs, usually with client tokens."""
        owner = self.rng.choice(OWNERS)
        named = self.rng.random() < 0.85
        batch = [self._submission(owner, named) for _ in range(self.rng.choice((1, 1, 1, 2, 4)))]

        def answered(receipts: list[Receipt]) -> None:
            for submission, receipt in zip(batch, receipts, strict=True):
                self.witness.submitted(owner, submission.client_token, receipt.id, submission.request.text)
                if receipt.id not in self.known:
                    self.known.append(receipt.id)

        self.witness.note("submit", owner, *[submission.client_token for submission in batch])
        self._ask(lambda service: service.intake.submit(batch), answered, again=named, allowed=())

    def _submission(self, owner: str, named: bool) -> Submission:
        self.tokens += 1
        cores = self.rng.choice((1, 1, 1, 2, 2, 3, 4)) if self.rng.random() < 0.97 else TOO_LARGE
        wants_disk = self.luck.random() < 0.15
        return Submission(
            owner=owner,
            request=DISK_REQUEST if wants_disk else REQUESTS[cores],
            name=FOR_EVER if self.rng.random() < 0.1 else "short",
            terms=self._terms(patient=self.rng.random() < 0.1),
            client_token=f"t{self.tokens}" if named else "",
            waits_for=self._dependencies(),
        )

    def _terms(self, *, patient: bool) -> Terms:
        rng = self.rng
        later = 0.5 if patient else 0.02
        again = rng.random() < 0.4
        return Terms(
            priority=rng.choice((0, 0, 5)),
            reruns=1 + self.tokens % 3 if again else 0,
            retries=rng.choice((0, 1, 2, 3)) if again or rng.random() < 0.3 else 0,
            lost_after=rng.uniform(SHORTEST, 1.5 * SHORTEST) if rng.random() < 0.3 else None,
            hold=rng.random() < later,
            start_after=self.server.wall.time() + rng.uniform(1.0, 20.0) if rng.random() < later else None,
            deadline=self.server.wall.time() + rng.uniform(2.0, 60.0) if rng.random() < 0.05 else None,
            fail_fast=rng.random() < 0.1,
        )

    def _dependencies(self) -> tuple[Dependency, ...]:
        if not self.known or self.rng.random() > 0.15:
            return ()
        kind = self.rng.choice(("after", "afterok", "afternotok", "afterany"))
        return (Dependency(kind, self.rng.choice(self.known)),)

    # --- cancel, release, drain, receive ---

    def cancel(self, id: int) -> None:
        """Cancel one job and retry until the server answers."""

        def answered(views: list[jobs.JobWithAttempt]) -> None:
            if views[0].job.state is JobState.CANCELLED:
                self.cancelled.add(id)

        self.witness.note("cancel", id)
        self._ask(lambda service: jobs.cancel(service.core, [id], None, ADMIN, ""), answered)

    def release(self, id: int) -> None:
        """Release one job, held or not."""
        self.witness.note("release", id)
        self._ask(lambda service: jobs.release(service.core, id, ADMIN), lambda _: None, allowed=(Conflict, NotFound))

    def drain(self, cluster: str, drained: bool) -> None:
        """Close a cluster for new work, or open it."""
        standing = Standing.DRAINING if drained else Standing.ACTIVE
        self.witness.note("drain" if drained else "undrain", cluster)
        self._ask(lambda service: registration.set_standing(service.core, cluster, standing, ""), lambda _: None)

    def receive(self, cluster: str) -> None:
        """Receive a job as the prototype's clients do, and usually accept it."""

        def answered(taken: list[Any]) -> None:
            refs = [(attempt.job, attempt.n, attempt.token) for attempt, _ in taken]
            if refs and self.rng.random() < 0.7:
                self._ask(lambda service: offers.accept(service.core, cluster, refs), lambda _: None, again=False)

        self.witness.note("receive", cluster)
        self._ask(lambda service: offers.receive(service.core, cluster, 1), answered, again=False)

    # --- calls ---

    def _ask(
        self,
        work: Work,
        answered: Callable[[Any], None],
        *,
        again: bool = True,
        allowed: tuple[type[RainbowError], ...] = (Conflict,),
    ) -> None:
        """Call the server until it answers; duplicate answers are processed twice."""
        done = False
        self.waiting += 1

        def settle() -> None:
            nonlocal done
            self.waiting -= not done
            done = True

        def back(result: Any, before: int) -> None:
            if isinstance(result, Unavailable) or before != self.witness.restores:
                return  # answers from before a restore are void; the call is repeated
            if isinstance(result, RainbowError):
                if not isinstance(result, (*allowed, NotFound) if self.witness.restored else allowed):
                    self.witness.broken("calls are answered", f"a call failed with {type(result).__name__}: {result}")
            else:
                answered(result)
            settle()

        def attempt() -> None:
            if done:
                return
            before = self.witness.restores

            def answer(result: Any) -> None:
                self.wire.answer(lambda: back(result, before))

            self.wire.ask(lambda: self.server.call(work, answer))
            if again:
                self.wire.loop.call_later(RETRY_SECONDS * self.rng.uniform(0.5, 1.5), attempt)
            else:
                self.wire.loop.call_later(RETRY_SECONDS, settle)

        attempt()

    # --- a restore ---

    def after_restore(self) -> None:
        """Forget what a restore has lost."""
        self.known = [id for id in self.known if id in self.witness.jobs]
        self.cancelled &= {id for id, job in self.witness.jobs.items() if job.state is JobState.CANCELLED}

    def give_up(self, cluster: str) -> None:
        """Give up a cluster's report after a restore."""
        self.witness.note("gives up", cluster)
        allowed = (Conflict, NotFound)
        self._ask(lambda service: restore.give_up(service.core, cluster), lambda _: None, allowed=allowed)

    # --- the end ---

    def tidy_up(self) -> None:
        """Cancel jobs that would not end, and undrain every cluster."""
        for id, job in self.witness.jobs.items():
            if job.name == FOR_EVER and not job.state.terminal:
                self.cancel(id)
        for id, job in self.witness.jobs.items():
            if job.hold is Hold.MAY_HAVE_RUN and not job.state.terminal:
                self.cancel(id)
        for row in self.server.disk.look(lambda tx: tx.restore_reports()):
            if row.state is ReportState.UNCLEAR:
                self.give_up(row.cluster)
        for cluster in self.clusters:
            self.drain(cluster, False)

    def unsettled(self) -> list[str]:
        """Return jobs that should have ended and have not."""
        return [
            f"job {job.id} is {job.state} ({job.hold}): {job.reason}{self._live(job)}"
            for job in self.witness.jobs.values()
            if not job.state.terminal and not self._waits_rightly(job, ())
        ]

    def _live(self, job: Job) -> str:
        attempt = self.witness.attempt(job.id, job.attempt)
        return "" if attempt is None or not attempt.state.live else f"; attempt {attempt.n} is {attempt.state}"

    def _waits_rightly(self, job: Job, seen: tuple[int, ...]) -> bool:
        if job.state is not JobState.HELD:
            return False
        if job.hold is Hold.NOTHING_FITS:
            return CORES[job.spec] == TOO_LARGE
        if job.hold is Hold.DEPENDENCY:
            others = self.server.disk.look(lambda tx: tx.dependencies(job.id))
            return any(
                self._waits_rightly(self.witness.jobs[other.job], (*seen, job.id))
                for other in others
                if other.job not in seen
            )
        if job.hold is Hold.TIME:
            service, at = self.server.service, job.terms.start_after
            return service is not None and at is not None and at > service.core.clock.now()
        return job.hold is Hold.USER
