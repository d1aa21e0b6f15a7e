"""Calls to the backend for the reactor. Every result and every failure becomes an event."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TypeAlias

from rainbow_sched.agent.backends.base import Backend, CannotBind, Launch
from rainbow_sched.agent.core import events as e
from rainbow_sched.agent.core.values import Result, Unknown
from rainbow_sched.agent.runtime.site_rules import SiteRules
from rainbow_sched.jobspecs.canonical import from_json
from rainbow_sched.model.attempt import AttemptState, Failure
from rainbow_sched.model.errors import Denied, Invalid, Unsupported
from rainbow_sched.model.request import Request
from rainbow_sched.protocol.messages import AllowedHosts, BidAnswer, BidRequest, Offer, OutputPiece

log = logging.getLogger("rainbow.agent")
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
