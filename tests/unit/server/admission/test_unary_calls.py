"""Calls above the deadline are cancelled; other cancellations pass through."""

from __future__ import annotations

import asyncio

from rainbow_sched.server.admission.unary_calls import Deadlines


async def held(deadlines: Deadlines, until: asyncio.Future[str]) -> str:
    call = asyncio.current_task()
    assert call is not None
    deadlines.begin(call)
    try:
        return await until
    except asyncio.CancelledError:
        return "cancelled by another" if deadlines.end(call) else "over time"
    finally:
        deadlines.end(call)


async def test_each_call_is_ended_at_its_own_time_and_no_other_is() -> None:
    loop, deadlines = asyncio.get_running_loop(), Deadlines(0.2)
    never = [loop.create_future() for _ in range(3)]
    slow = [asyncio.create_task(held(deadlines, one)) for one in never[:2]]
    soon: asyncio.Future[str] = loop.create_future()
    quick = asyncio.create_task(held(deadlines, soon))
    loop.call_soon(soon.set_result, "in time")
    assert await quick == "in time"
    began = loop.time()
    loop.call_later(0.1, lambda: slow.append(asyncio.create_task(held(deadlines, never[2]))))
    assert await asyncio.gather(*slow) == ["over time"] * 2
    assert loop.time() - began < 0.3, "the calls waited for the later one"
    assert not slow[2].done()
    assert await slow[2] == "over time"
    assert loop.time() - began >= 0.29


async def test_a_call_that_is_cancelled_for_another_reason_is_not_over_time() -> None:
    loop, deadlines = asyncio.get_running_loop(), Deadlines(60.0)
    call = asyncio.create_task(held(deadlines, loop.create_future()))
    await asyncio.sleep(0)
    call.cancel()
    assert await call == "cancelled by another"


async def test_deadlines_work_after_a_pause_without_calls() -> None:
    loop, deadlines = asyncio.get_running_loop(), Deadlines(0.02)
    for _ in range(2):
        assert await asyncio.create_task(held(deadlines, loop.create_future())) == "over time"
        idle = loop.create_future()
        loop.call_later(0.05, idle.set_result, None)
        await idle
