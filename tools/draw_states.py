"""Draw the state diagrams of docs/protocol.md from the tables in the code.

Usage: python tools/draw_states.py          rewrite the diagrams in the page
       python tools/draw_states.py --check  exit with 1 if they are not current
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable
from pathlib import Path

from rainbow_sched.agent.core.values import STEPS
from rainbow_sched.model.attempt import ENDS, LIVE, AttemptState
from rainbow_sched.model.job_state import TERMINAL, TRANSITIONS

PAGE = Path(__file__).resolve().parent.parent / "docs" / "protocol.md"
BEGIN, END = "<!-- drawn: {name} -->", "<!-- end: {name} -->"


def job() -> list[str]:
    """Return the transitions of a job; those between the same two states share one line."""
    arrows: dict[tuple[str, str], list[str]] = {}
    for (before, event), following in TRANSITIONS.items():
        arrows.setdefault((before.value, following.value), []).append(event.value)
    lines = [f"    {before} --> {following}: {', '.join(events)}" for (before, following), events in arrows.items()]
    return ["    [*] --> queued: submitted", *lines, *(f"    {state} --> [*]" for state in _ordered(TERMINAL))]


def attempt() -> list[str]:
    """Return the order of a live attempt's states (forward skips are allowed), and the final states of each."""
    lines = ["    [*] --> offered"]
    lines += [f"    {a.value} --> {b.value}" for a, b in itertools.pairwise(LIVE)]
    groups: dict[tuple[str, ...], list[AttemptState]] = {}
    for state, ends in ENDS.items():
        groups.setdefault(tuple(_ordered(ends)), []).append(state)
    for number, (ends, states) in enumerate(groups.items(), start=1):
        lines += [f'    state "{" / ".join(ends)}" as end{number}']
        lines += [f"    {state.value} --> end{number}" for state in states]
    return [*lines, *(f"    end{number} --> [*]" for number in range(1, len(groups) + 1))]


def held() -> list[str]:
    """Return the transitions of an attempt in an agent."""
    return [
        "    [*] --> offered: judged fit",
        *(f"    {before.value} --> {following.value}: {step.value}" for (before, step), following in STEPS.items()),
        "    finished --> [*]: stored by the server",
    ]


def _ordered(states: Iterable[object]) -> list[str]:
    return sorted(str(state) for state in states)


def drawn(text: str) -> str:
    """Return the page with current diagrams."""
    for name, lines in (("job", job()), ("attempt", attempt()), ("held", held())):
        begin, end = BEGIN.format(name=name), END.format(name=name)
        head, _, rest = text.partition(begin)
        _, found, tail = rest.partition(end)
        if not found:
            raise SystemExit(f"docs/protocol.md has no place for the diagram {name!r}: {begin} ... {end}")
        diagram = "\n".join(["```mermaid", "stateDiagram-v2", *lines, "```"])
        text = f"{head}{begin}\n{diagram}\n{end}{tail}"
    return text


def main(args: list[str]) -> int:
    """Rewrite the page, or compare it."""
    text = PAGE.read_text("utf-8")
    now = drawn(text)
    if "--check" in args:
        return 0 if now == text else 1
    PAGE.write_text(now, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
