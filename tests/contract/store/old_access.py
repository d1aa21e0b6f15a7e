"""Run with the program of commit 4292f3f: make a database with rights, rotations, renewals and unsettled dependents.

Print the credentials, what the old program says about each of them at several times, and how many dependents it has
settled so far.
"""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import replace
from random import Random

from rainbow.jobspecs.canonical import to_json
from rainbow.model.credential import Kind, Principal, digest, id_of
from rainbow.model.errors import Unauthenticated
from rainbow.model.job import JobState, Terms
from rainbow.model.request import Count, Group, Level, Request, Task
from rainbow.service import accounts, jobs, registering, renewing
from rainbow.service.assembly import Service, assemble
from rainbow.service.auditing import act_as
from rainbow.service.clock import ManualClock
from rainbow.service.ids import Ids
from rainbow.service.settings import Settings
from rainbow.service.submitting import Submission
from rainbow.store.base import Dependency, JobFilter
from rainbow.store.opening import open_store

ADMIN = Principal(name="admin", kind=Kind.ADMIN, scopes=frozenset({"admin"}))
TIMES = (0.0, 30.0, 61.0, 601.0, 4_000.0, 40 * 86_400.0)
DEPENDENTS = 1_100


async def main(url: str) -> None:
    """Fill the database at `url`."""
    clock = ManualClock()
    service = await assemble(await open_store(url), Settings(policy="first"), clock, Ids(Random(1)), "a secret")
    try:
        texts = await access(service, clock)
        await unsettled(service)
        principals = {who: [await said(service, text, clock.now() + t) for t in TIMES] for who, text in texts.items()}
        states = await service.core.store.read(lambda tx: tx.count_jobs(JobFilter()))
    finally:
        await service.stop()
    left = states[JobState.HELD]
    print(json.dumps({"now": clock.now(), "texts": texts, "principals": principals, "held": left}))


async def access(service: Service, clock: ManualClock) -> dict[str, str]:
    """Accounts, groups and credentials in every state; return the texts of the credentials."""
    core, texts = service.core, {}
    act_as(ADMIN, "")
    graph = {"type": "node", "count": 2, "name": "n[0-1]", "with": [{"type": "core", "count": 4}]}
    text = json.dumps({"rainbow": "graph/1", "cluster": "c", "with": [graph]}).encode()
    agents = {}
    for name in ("alpha", "beta", "gamma"):
        made = await registering.register(core, name, text)
        assert made is not None
        agents[name], texts[f"agent-{name}"] = made.secret, made.secret
        texts[f"submit-{name}"] = made.token
    await accounts.put_group(core, "lab", clusters=["alpha"], rights=["job:read:group"], create=True)
    await accounts.put_group(core, "gpus", clusters=["beta", "gamma"], rights=["submit:@gpus"], create=True)
    await accounts.put_group(core, "none", clusters=[], create=True)
    await accounts.put_user(core, "ana", groups=["lab", "gpus"], rights=["submit:@lab"], create=True)
    await accounts.put_user(core, "bob", groups=["lab"], create=True)
    await accounts.put_user(core, "op", rights=["admin", "submit:*"], create=True)
    await accounts.put_user(core, "off", rights=["admin"], disabled=True, create=True)
    for owner, scopes in {
        "ana": ("submit:*", "job:read:group", "job:cancel:own"),
        "bob": ("submit:*", "job:read:own"),
        "op": ("admin",),
        "off": ("admin",),
    }.items():
        texts[owner], _ = await accounts.create_token(
            core, ADMIN, owner=owner, scopes=scopes, ttl=30 * 86_400.0, note="", join=False
        )
    # Rotated by hand, with and without a grace of its own.
    for who, grace in (("ana", 0.0), ("bob", 3_600.0)):
        texts[f"{who}-new"], _ = await accounts.rotate(core, ADMIN, id_of(texts[who]) or "", grace)
    # Alpha renews: one successor was given up, the next is not in use yet. Beta's is in use. Gamma is asked to renew.
    clock.advance(1.0)
    for name, made in (("alpha", "aaaaaaaaaaaa"), ("alpha", "bbbbbbbbbbbb"), ("beta", "cccccccccccc")):
        texts[f"{name}-{made[0]}"] = new = f"rbw_agt_{made}_" + made[0] * 43
        await renewing.renew(core, await core.recogniser.recognise(agents[name], clock.now()), made, digest(new))
    used = await core.recogniser.recognise(texts["beta-c"], clock.now())
    await renewing.renew(core, used, "cccccccccccc", digest(texts["beta-c"]))
    clock.advance(1.0)
    await renewing.ask(core, "gamma")
    await renewing.ask(core, "beta")
    return texts


async def unsettled(service: Service) -> None:
    """End a job with more dependents than one transaction settles, and do not settle the others."""
    level = Level(type="node", count=Count(1), inside=(Level(type="core", count=Count(1)),))
    request = Request(groups=(Group(levels=(level,)),), tasks=(Task(command=("true",)),))
    one = Submission(owner="ana", request=request, spec=to_json(request), name="job", terms=Terms(hold=True))
    [first] = await service.intake.submit([one])
    [other] = await service.intake.submit([one])
    more = replace(one, terms=Terms(), waits_for=(Dependency("afterany", first.id),))
    await service.intake.submit([more] * DEPENDENTS)
    await service.intake.submit([replace(more, waits_for=(Dependency("afterany", other.id),))] * 3)
    await jobs.cancel(service.core, [first.id], None, ADMIN, "")


async def said(service: Service, text: str, now: float) -> object:
    """What the program says about a credential at a time; None: refused."""
    service.core.recogniser.forget()
    try:
        who = await service.core.recogniser.recognise(text, now)
    except Unauthenticated:
        return None
    return [
        who.name,
        who.kind,
        who.credential,
        sorted(who.scopes),
        sorted(who.groups),
        sorted(who.fellows),
        who.until,
        who.renew,
    ]


asyncio.run(main(sys.argv[1]))
