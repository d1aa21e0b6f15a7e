"""What the loop asks of the backend on the reactor's behalf; every answer, and every failure, is an event."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TypeAlias

from rainbow_sched.agent.backends.base import Backend, CannotBind, Launch
from rainbow_sched.agent.core import events as e
from rainbow_sched.agent.core.signatures import Signatures
from rainbow_sched.agent.core.site_rules import Rules
from rainbow_sched.agent.core.values import AllowedHosts, BidAnswer, Chunk, Offer, Result, Unknown
from rainbow_sched.jobspecs.canonical import from_json
from rainbow_sched.model.attempt import AttemptState, Failure
from rainbow_sched.model.errors import Denied, Invalid, Unsupported
from rainbow_sched.model.request import Request

log = logging.getLogger("rainbow.agent")
BID_DEADLINE = 2.0
Errand: TypeAlias = e.Judge | e.Submit | e.Lookup | e.ReadOutput | e.AskBid


@dataclass(frozen=True, slots=True)
class Errands:
    """Runs to the backend and back."""

    cluster: str
    backend: Backend
    rules: Rules
    run_guard: float
    signatures: Signatures | None = None

    async def run(self, errand: Errand) -> e.Event:
        """Do it; never raises but when cancelled."""
        match errand:
            case e.Judge(offer):
                return e.Judged(offer, await self._refusal(offer))
            case e.Submit(offer):
                return await self._submit(offer)
            case e.Lookup(ref):
                try:
                    return e.LookedUp(ref, await self.backend.lookup(ref.tag))
                except Exception as problem:  # a driver may fail in any way; unknown is not dead
                    log.warning("%s: cannot be looked up: %s", ref.tag, problem)
                    return e.LookedUp(ref, Unknown(str(problem)))
            case e.ReadOutput(ref, stream, offset, limit):
                try:
                    data = await self.backend.output(ref.tag, stream, offset, limit)
                except Exception as problem:  # a driver may fail in any way; what cannot be read now is not gone
                    log.warning("%s: its %s cannot be read: %s", ref.tag, stream, problem)
                    return e.OutputUnread(ref, stream)
                return e.OutputRead(Chunk(ref, stream, offset, data))
            case e.AskBid(request):
                return e.BidReady(request.id, await self._bid(request))

    async def _refusal(self, offer: Offer) -> str | None:
        reason: str | None
        try:
            request = from_json(offer.spec)
            reason = offer.unreadable or offer.allowed.mismatch(len(request.groups))
            reason = reason or self.rules.refuses(offer, request)
            if reason is None and self.signatures is not None:
                reason = self.signatures.refuses(offer)
            reason = reason or await self._check(request, offer.allowed)
        except Exception as problem:  # an offer that this agent does not understand must not end the agent
            reason = f"the agent cannot read the request: {problem}"
        if reason is not None:
            log.info("%s: handed back: %s", offer.ref.tag, reason)
        return reason

    async def _check(self, request: Request, allowed: AllowedHosts) -> str | None:
        try:
            return await self.backend.check(request, allowed)
        except Exception as problem:  # a driver may fail in any way; another cluster can take the job meanwhile
            return f"the manager cannot be asked whether it could run: {problem}"

    async def _submit(self, offer: Offer) -> e.Event:
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
            if self.signatures is not None:
                await asyncio.to_thread(self.signatures.take, offer)
            return e.SubmitAnswered(ref, await self.backend.submit(launch))
        except CannotBind as problem:  # known only since the offer was judged; another cluster may keep it
            return e.SubmitRefused(ref, Result(state=AttemptState.RETURNED, reason=str(problem)))
        except (Denied, Invalid, Unsupported) as problem:
            return e.SubmitRefused(ref, Result(state=AttemptState.FAILED, failure=Failure.REFUSED, reason=str(problem)))
        except Exception as problem:  # a driver may fail in any way; what the manager did is then unknown
            log.warning("%s: submitting it failed: %s", ref.tag, problem)
            return e.SubmitUnclear(ref, str(problem))

    async def _bid(self, request: e.BidRequest) -> BidAnswer:
        if request.unreadable:
            return BidAnswer(yes=False, reason=request.unreadable)
        try:
            wanted = from_json(request.spec)
            if (reason := request.allowed.mismatch(len(wanted.groups))) is not None:
                return BidAnswer(yes=False, reason=reason)
            async with asyncio.timeout(request.deadline or BID_DEADLINE):
                return await self.backend.bid(wanted, request.allowed)
        except TimeoutError:
            return BidAnswer(yes=False, reason="the manager did not answer in time", valid_for=5.0)
        except Exception as problem:  # a driver may fail in any way; without an answer nobody would know of it
            log.warning("a bid cannot be made: %s", problem)
            return BidAnswer(yes=False, reason=str(problem), valid_for=5.0)
