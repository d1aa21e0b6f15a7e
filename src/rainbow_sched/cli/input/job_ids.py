"""Which jobs a person means: `118`, `3-9`, `last`, `all`, a name, or a cluster's own id `perl:88123`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from rainbow_sched.model.errors import Invalid, NotFound

if TYPE_CHECKING:
    from rainbow_sched.client import AsyncClient

MAX_RANGE = 10_000
_RANGE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")


@dataclass(frozen=True, slots=True)
class Ids:
    """One job or a range of them, by number."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Last:
    """The newest job."""


@dataclass(frozen=True, slots=True)
class All:
    """Every job that has not ended."""


@dataclass(frozen=True, slots=True)
class Named:
    """Every job of this name that has not ended; without one, the newest of the name."""

    name: str


@dataclass(frozen=True, slots=True)
class Native:
    """The job that a cluster's manager knows by its own id."""

    cluster: str
    native_id: str


Selector: TypeAlias = Ids | Last | All | Named | Native


def selector(word: str) -> Selector:
    """What one word selects."""
    found = _RANGE.fullmatch(word)
    if found:
        first, last = int(found[1]), int(found[2] or found[1])
        if first < 1:
            raise Invalid(f"{word!r}: jobs are numbered from 1")
        if not first <= last < first + MAX_RANGE:
            raise Invalid(f"{word!r} is not a range of jobs; write for example 3-9, at most {MAX_RANGE} of them")
        return Ids(first, last)
    if word == "last":
        return Last()
    if word == "all":
        return All()
    cluster, colon, native = word.partition(":")
    if colon and cluster and native:
        return Native(cluster, native)
    if not word.strip():
        raise Invalid("an empty word names no job; write an id, a name, 3-9, last or all")
    return Named(word)


async def resolve(client: AsyncClient, words: Iterable[str]) -> list[int]:
    """The ids that `words` select, each once, in the order of the words."""
    found: dict[int, None] = {}
    for word in words:
        found.update(dict.fromkeys(await _ids(client, selector(word), word)))
    return list(found)


async def only_one(client: AsyncClient, word: str) -> int:
    """The one id that `word` selects."""
    ids = await resolve(client, [word])
    if len(ids) != 1:
        raise Invalid(f"{word!r} means {len(ids)} jobs; name one of them: {', '.join(map(str, ids[:10]))}")
    return ids[0]


async def _ids(client: AsyncClient, chosen: Selector, word: str) -> Sequence[int]:
    from rainbow_sched.client import JobFilter
    from rainbow_sched.client.job_verbs import ACTIVE_STATES, MAX_SELECTED_JOBS

    match chosen:
        case Ids(first, last) if first == last:
            return [first]
        case Ids(first, last):
            found = await client.jobs(JobFilter(ids=range(first, last + 1)), limit=MAX_RANGE)
            ids = sorted(job.id for job in found)
        case Last():
            ids = [job.id for job in await client.jobs(limit=1)]
        case All():
            return [job.id for job in await client.jobs(JobFilter(states=ACTIVE_STATES), limit=MAX_SELECTED_JOBS)]
        case Named(name):
            found = await client.jobs(JobFilter(name=name), limit=MAX_SELECTED_JOBS)
            ids = [job.id for job in found if not job.ended] or [job.id for job in found[:1]]
        case Native(cluster, native):
            found = await client.jobs(JobFilter(cluster=cluster), limit=MAX_RANGE)
            ids = [job.id for job in found if job.native_id == native][:1]
    if not ids:
        raise NotFound(f"there is no job {word!r} that you may see; rainbow jobs -a lists them")
    return ids
