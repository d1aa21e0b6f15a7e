"""Run a manager's client program with a timeout and a given environment."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass

from rainbow_sched.model.errors import Unavailable


@dataclass(frozen=True, slots=True)
class ProgramResult:
    code: int
    out: str
    err: str

    @property
    def error_line(self) -> str:
        """Return the last line of stderr without the program's name."""
        lines = [line.strip() for line in self.err.splitlines() if line.strip()]
        return re.sub(r"^[\w-]+: (?:error: |ERROR: )?", "", lines[-1]) if lines else f"exit code {self.code}"


async def run(
    words: tuple[str, ...], environment: Mapping[str, str], timeout: float, feed: str | None = None
) -> ProgramResult:
    """Run a program with `feed` on stdin; raise Unavailable if it cannot be run or times out."""
    try:
        process = await asyncio.create_subprocess_exec(
            *words,
            stdin=asyncio.subprocess.DEVNULL if feed is None else asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=dict(environment),
        )
    except OSError as problem:
        raise Unavailable(f"cannot run {words[0]}: {problem.strerror}") from None
    try:
        async with asyncio.timeout(timeout):
            out, err = await process.communicate(None if feed is None else feed.encode())
    except TimeoutError:
        raise Unavailable(f"{words[0]} did not answer within {timeout:g} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return ProgramResult(process.returncode or 0, out.decode(errors="replace"), err.decode(errors="replace"))
