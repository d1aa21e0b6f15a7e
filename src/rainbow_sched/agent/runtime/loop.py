"""The agent's event loop: feeds events to the reactor and executes its commands.

Every result and every failure of a call to the backend becomes an event.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TypeAlias

from rainbow_sched.agent.backends.base import Backend, CannotBind, Launch
from rainbow_sched.agent.backends.local.wrapper import boot_id
from rainbow_sched.agent.core import events as e
from rainbow_sched.agent.core.journal_records import compacted, last_mark, restored
from rainbow_sched.agent.core.reactor import due, idle, react
from rainbow_sched.agent.core.state import AgentLimits, AgentState
from rainbow_sched.agent.core.values import Result, Unknown
from rainbow_sched.agent.runtime.journal import Journal, JournalWriter
from rainbow_sched.agent.runtime.link import Refusals, ServerLink
from rainbow_sched.agent.runtime.registration import Rediscovery
from rainbow_sched.agent.runtime.site_rules import SiteRules
from rainbow_sched.client.connection import Backoff
from rainbow_sched.jobspecs.canonical import from_json
from rainbow_sched.model.attempt import AttemptState, Failure
from rainbow_sched.model.errors import Denied, Invalid, RainbowError, Unsupported
from rainbow_sched.model.graph import Graph
from rainbow_sched.model.request import Request
from rainbow_sched.protocol.messages import AllowedHosts, BidAnswer, BidRequest, Offer, OutputPiece, SyncMessage

log = logging.getLogger("rainbow.agent")
SHUTDOWN_SECONDS = 5.0  # seconds for the last message of a stopping agent
WARNING_INTERVAL_SECONDS = 300.0  # seconds until the same warning is repeated
BACKOFF = Backoff(first=0.2, cap=10.0)
CONTACT_WRITE_SECONDS = 5.0  # seconds; an older time only ends jobs earlier
BID_DEADLINE_SECONDS = 2.0  # for a request without a deadline; as the server's default
BackendCall: TypeAlias = e.CheckOffer | e.Submit | e.Lookup | e.ReadOutput | e.AskBid


@dataclass(frozen=True, slots=True)
class BackendCalls:
    """Execute commands of the reactor that need the backend."""

    cluster: str
    backend: Backend
    rules: SiteRules
    run_guard: float

    async def run(self, command: BackendCall) -> e.AgentEvent:
        """Execute one command and return its result as an event; never raises except for cancellation."""
        match command:
            case e.CheckOffer(offer):
                return e.OfferChecked(offer, await self._refusal(offer))
            case e.Submit(offer):
                return await self._submit(offer)
            case e.Lookup(ref):
                try:
                    return e.LookedUp(ref, await self.backend.lookup(ref.tag))
                except Exception as problem:  # a backend may fail in any way; unknown is not dead
                    log.warning("%s: lookup failed: %s", ref.tag, problem)
                    return e.LookedUp(ref, Unknown(str(problem)))
            case e.ReadOutput(ref, stream, offset, limit):
                try:
                    data = await self.backend.output(ref.tag, stream, offset, limit)
                except Exception as problem:  # a backend may fail in any way; the output may be readable later
                    log.warning("%s: reading %s failed: %s", ref.tag, stream, problem)
                    return e.OutputUnread(ref, stream)
                return e.OutputRead(OutputPiece(ref, stream, offset, data))
            case e.AskBid(request):
                return e.BidReady(request.id, await self._bid(request))

    async def _refusal(self, offer: Offer) -> str | None:
        reason: str | None
        try:
            request = from_json(offer.spec)
            reason = offer.unreadable or offer.allowed.mismatch(len(request.groups))
            reason = reason or self.rules.refuses(offer, request)
            reason = reason or await self._check(request, offer.allowed)
        except Exception as problem:  # an offer that this agent cannot read must not end the agent
            reason = f"the agent cannot read the request: {problem}"
        if reason is not None:
            log.info("%s: rejected: %s", offer.ref.tag, reason)
        return reason

    async def _check(self, request: Request, allowed: AllowedHosts) -> str | None:
        try:
            return await self.backend.check(request, allowed)
        except Exception as problem:  # a backend may fail in any way; another cluster can take the job
            return f"the manager could not check the job: {problem}"

    async def _submit(self, offer: Offer) -> e.AgentEvent:
        ref = offer.ref
        try:
            launch = Launch(
                tag=ref.tag,
                job=ref.job,
                attempt=ref.n,
                cluster=self.cluster,
                request=from_json(offer.spec),
                owner=offer.owner,
                name=offer.name,
                array_index=offer.array_index,
                allowed=offer.allowed,
                guard=offer.guard(self.run_guard),
            )
            if self.rules.signatures is not None:
                await asyncio.to_thread(self.rules.signatures.take, offer)
            return e.SubmitAnswered(ref, await self.backend.submit(launch))
        except CannotBind as problem:  # found after the offer was checked; another cluster may meet the constraint
            return e.SubmitRefused(ref, Result(state=AttemptState.RETURNED, reason=str(problem)))
        except (Denied, Invalid, Unsupported) as problem:
            return e.SubmitRefused(ref, Result(state=AttemptState.FAILED, failure=Failure.REFUSED, reason=str(problem)))
        except Exception as problem:  # a backend may fail in any way; the submission may have reached the manager
            log.warning("%s: submission failed, outcome unknown: %s", ref.tag, problem)
            return e.SubmitUnclear(ref, str(problem))

    async def _bid(self, request: BidRequest) -> BidAnswer:
        if request.unreadable:
            return BidAnswer(yes=False, reason=request.unreadable)
        try:
            wanted = from_json(request.spec)
            if (reason := request.allowed.mismatch(len(wanted.groups))) is not None:
                return BidAnswer(yes=False, reason=reason)
            async with asyncio.timeout(request.deadline or BID_DEADLINE_SECONDS):
                return await self.backend.bid(wanted, request.allowed)
        except TimeoutError:
            return BidAnswer(yes=False, reason="the manager did not answer in time", valid_for=5.0)
        except Exception as problem:  # a backend may fail in any way; the server waits for an answer
            log.warning("bid failed: %s", problem)
            return BidAnswer(yes=False, reason=str(problem), valid_for=5.0)


class ContactFile:
    """A file with the boot clock at the sending of the last answered message."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._boot = boot_id()
        self._last = float("-inf")

    def read(self) -> float | None:
        """Return the time; None if it is unknown or from before a reboot."""
        try:
            boot, at = json.loads(self._path.read_text())
        except (OSError, ValueError, TypeError):
            return None
        return float(at) if boot == self._boot else None

    def write(self, at: float) -> None:
        """Store the time, at most once per interval."""
        if at - self._last < CONTACT_WRITE_SECONDS:
            return
        self._last = at
        try:
            beside = self._path.with_suffix(".new")
            beside.write_text(json.dumps([self._boot, at]))
            beside.replace(self._path)
        except OSError:
            return  # a full disk must not end the agent; an older time only ends jobs earlier


def boot_clock() -> float:
    """Return the seconds since boot, including suspend."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentParts:
    cluster: str
    link: ServerLink
    backend: Backend
    journal: Journal
    rules: SiteRules = field(default_factory=SiteRules)
    limits: AgentLimits = field(default_factory=AgentLimits)
    rediscovery: Rediscovery | None = None


class Agent:
    def __init__(
        self,
        parts: AgentParts,
        *,
        once: bool = False,
        clock: Callable[[], float] = boot_clock,
        rng: Random | None = None,
    ) -> None:
        self.parts = parts
        self.backend = parts.backend
        self._once, self._clock, self._rng = once, clock, rng or Random()
        held, past = restored(parts.journal.records)
        mark = last_mark(parts.journal.records)
        self.state = AgentState(limits=parts.limits, fresh=parts.journal.fresh, attempts=held, past=past, mark=mark)
        self._contact = ContactFile(parts.journal.path.parent / "contact")
        self._events: asyncio.Queue[e.AgentEvent] = asyncio.Queue()
        self._writer = JournalWriter(parts.journal, self._events.put_nowait)
        self._tasks: set[asyncio.Task[None]] = set()
        self._syncs: dict[int, asyncio.Task[None]] = {}
        self._calls = BackendCalls(parts.cluster, parts.backend, parts.rules, parts.limits.run_guard)
        self._failures = 0
        self._last_warning = ("", 0.0)
        self._refusals = Refusals()
        self._failed: asyncio.Future[None] | None = None

    def stop(self) -> None:
        """Take no new work, tell the server and exit; running jobs continue."""
        self._events.put_nowait(e.StopAsked())

    async def run(self) -> None:
        """Run until stopped or, with `once`, until nothing is left to do; raise errors that a retry cannot fix."""
        self._failed = asyncio.get_running_loop().create_future()
        if self.parts.journal.truncated:
            log.warning("journal: dropped an incomplete last line of %d bytes", self.parts.journal.truncated)
        await self.backend.start()
        self._spawn(self._follow_backend())
        self._spawn(self._writer.run())
        if self.parts.rediscovery is not None:
            self._spawn(self.parts.rediscovery.run(self._reshape))
        for held in self.state.attempts.values():
            log.info("%s: %s, restored from the journal", held.ref.tag, held.phase.value)
        self._apply(e.Started(self._contact.read()))
        try:
            await self._process_events()
        finally:
            await self._writer.drain(SHUTDOWN_SECONDS)
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self.backend.close()

    async def _process_events(self) -> None:
        leave_at: float | None = None
        while True:
            event = await self._next(leave_at)
            if self._failed is not None and self._failed.done():
                self._failed.result()
            seq = self.state.seq
            self._apply(event)
            now = self._clock()
            if isinstance(event, e.StopAsked):
                leave_at = now + SHUTDOWN_SECONDS
            if leave_at is not None and (now >= leave_at or self._stop_acknowledged(event, seq)):
                return
            if self._once and self._nothing_to_do(event):
                return

    async def _next(self, leave_at: float | None) -> e.AgentEvent:
        if not self._events.empty():
            return self._events.get_nowait()
        now = self._clock()
        times = [at for at in (due(self.state, now), leave_at) if at is not None]
        timeout = max(0.0, min(times) - now) if times else None
        try:
            return await asyncio.wait_for(self._events.get(), timeout)
        except TimeoutError:
            return e.Tick()

    def _stop_acknowledged(self, event: e.AgentEvent, seq: int) -> bool:
        """Return True once a message that requests no more work was answered."""
        last_message = self.state.answered
        return (
            isinstance(event, e.SyncAnswered)
            and last_message is not None
            and last_message.want == 0
            and event.answer.ack == seq
        )

    def _nothing_to_do(self, event: e.AgentEvent) -> bool:
        waited = self.state.answered is not None and self.state.answered.wait > 0
        return isinstance(event, e.SyncAnswered) and event.answer.empty and waited and idle(self.state)

    def _apply(self, event: e.AgentEvent) -> None:
        self.state, commands = react(self.state, event, self._clock())
        if isinstance(event, e.RecordStored):
            self._writer.note_processed()
        for command in commands:
            self._do(command)
        self._writer.compact_if_long(lambda: compacted(self.state.attempts.values(), self.state.past, self.state.mark))

    def _spawn(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None and self._failed is not None:
            if not self._failed.done():
                self._failed.set_exception(problem)
            self._events.put_nowait(e.Tick())

    def _sync_ended(self, seq: int, task: asyncio.Task[None]) -> None:
        if self._syncs.get(seq) is task:
            del self._syncs[seq]

    def _do(self, command: e.Command) -> None:
        match command:
            case e.SendSync(message):
                earlier = self._syncs.pop(message.seq, None)
                if earlier is not None:
                    earlier.cancel()
                task = self._syncs[message.seq] = self._spawn(self._send(message))
                task.add_done_callback(lambda done: self._sync_ended(message.seq, done))
            case e.WriteJournal():
                self._writer.write(command)
            case e.CheckOffer() | e.Submit() | e.Lookup() | e.ReadOutput() | e.AskBid():
                self._spawn(self._call_backend(command))
            case e.Cancel(ref):
                log.info("%s: cancelling", ref.tag)
                self._spawn(self._log_failure(self.backend.cancel(ref.tag), f"{ref.tag}: cannot end it"))
            case e.Forget(ref):
                self._spawn(self._log_failure(self.backend.forget(ref.tag), f"{ref.tag}: cannot tidy up"))

    # --- the server ---

    async def _send(self, message: SyncMessage) -> None:
        try:
            answer = await self.parts.link.sync(message)
        except RainbowError as problem:
            self._failures += 1
            pause = self._refusals.pause(problem, self._clock())  # raises when a retry is useless
            retry_in = pause or BACKOFF.delay(self._failures - 1, self._rng)
            self._warn(problem, retry_in)
            self._events.put_nowait(e.SyncFailed(message.seq, retry_in))
            return
        if self._failures or self.state.contact_at is None:
            log.info("connected to the server")
            self._last_warning = ("", 0.0)
        self._failures = 0
        self._refusals.answered()
        if self.state.contact_at is not None:
            self._contact.write(self.state.contact_at)
        self._events.put_nowait(e.SyncAnswered(answer))

    def _warn(self, problem: RainbowError, retry_in: float) -> None:
        """Log a problem once, and repeat it at intervals while it lasts."""
        now = self._clock()
        if str(problem) != self._last_warning[0] or now - self._last_warning[1] >= WARNING_INTERVAL_SECONDS:
            self._last_warning = (str(problem), now)
            log.warning("%s; retrying in %.1f s", problem, retry_in)

    # --- the backend ---

    async def _follow_backend(self) -> None:
        while True:
            try:
                updates = await self.backend.poll()
                facts = await self.backend.facts()
                if self.parts.rediscovery is not None:
                    self.parts.rediscovery.hint(facts.shape)
                self._events.put_nowait(e.BackendUpdated(updates, facts))
            except Exception as problem:  # a backend may fail in any way; running jobs are still watched
                log.warning("polling the manager failed: %s", problem, exc_info=_is_bug(problem))
            await self.backend.changed()

    def _reshape(self, graph: Graph) -> None:
        self.backend.reshape(graph)
        self._events.put_nowait(e.GraphReplaced())

    async def _call_backend(self, command: BackendCall) -> None:
        """Execute a command on the backend and queue its event."""
        self._events.put_nowait(await self._calls.run(command))

    async def _log_failure(self, work: Awaitable[None], message: str) -> None:
        """Await work that is repeated anyway or is optional; log a failure."""
        try:
            await work
        except Exception as problem:  # a backend may fail in any way
            log.warning("%s: %s", message, problem, exc_info=_is_bug(problem))


def _is_bug(problem: Exception) -> bool:
    """Return True for a bug in a backend, logged with its traceback."""
    return not isinstance(problem, RainbowError | OSError)
