"""Resolve job selectors: `118`, `3-9`, `last`, `all`, a name, or a manager's id such as `perl:88123`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rainbow_sched.model.errors import Invalid, NotFound
from rainbow_sched.model.ranges import parse_range

if TYPE_CHECKING:
    from rainbow_sched.client.jobs import JobClient

MAX_RANGE_JOBS = 10_000  # bounds the memory of one command


async def resolve(client: JobClient, words: Iterable[str]) -> list[int]:
    """Return the ids that `words` select, each once, in the order of the words."""
    ids: dict[int, None] = {}
    for word in words:
        ids.update(dict.fromkeys(await _resolve_word(client, word)))
    return list(ids)


async def resolve_one(client: JobClient, word: str) -> int:
    """Return the id that `word` selects; raise Invalid if it selects several jobs."""
    ids = await resolve(client, [word])
    if len(ids) != 1:
        raise Invalid(f"{word!r} means {len(ids)} jobs; name one of them: {', '.join(map(str, ids[:10]))}")
    return ids[0]


async def _resolve_word(client: JobClient, word: str) -> list[int]:
    from rainbow_sched.client.jobs import ACTIVE_STATES, MAX_SELECTED_JOBS, JobFilter

    cluster, _, native_id = word.partition(":")
    if span := parse_range(word):
        first, last = span
        if first < 1:
            raise Invalid(f"{word!r}: job ids start at 1")
        if not first <= last < first + MAX_RANGE_JOBS:
            raise Invalid(f"{word!r} is not a range of jobs; write for example 3-9, at most {MAX_RANGE_JOBS} of them")
        if first == last:
            return [first]
        jobs = await client.jobs(JobFilter(ids=range(first, last + 1)), limit=MAX_RANGE_JOBS)
        ids = sorted(job.id for job in jobs)
    elif word == "last":
        ids = [job.id for job in await client.jobs(limit=1)]
    elif word == "all":  # may select none
        return [job.id for job in await client.jobs(JobFilter(states=ACTIVE_STATES), limit=MAX_SELECTED_JOBS)]
    elif cluster and native_id:
        jobs = await client.jobs(JobFilter(cluster=cluster), limit=MAX_RANGE_JOBS)
        ids = [job.id for job in jobs if job.native_id == native_id][:1]
    elif not word.strip():
        raise Invalid("a job selector is empty; write an id, a name, 3-9, last or all")
    else:  # the active jobs of this name, or else its newest job
        jobs = await client.jobs(JobFilter(name=word), limit=MAX_SELECTED_JOBS)
        ids = [job.id for job in jobs if not job.ended] or [job.id for job in jobs[:1]]
    if not ids:
        raise NotFound(f"there is no job {word!r} that you may see; rainbow jobs -a lists them")
    return ids
