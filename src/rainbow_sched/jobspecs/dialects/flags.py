"""Convert command-line flags (`-N -n -c -g --mem`) into a Request, as `flux submit` does.

`-n` tasks are spread evenly over `-N` nodes; `-N` alone means one task on each node, exclusively.
Without `-N` each task is a slot inside one node. Memory is per node; without `-N` it is for the
job, spread evenly over its tasks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from rainbow_sched.jobspecs.reading.counts import spread_slot
from rainbow_sched.jobspecs.reading.fields import located
from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.quantities import parse_bytes
from rainbow_sched.model.request import MAX_COUNT, Count, Group, Level, Request, Task

LABEL = "task"  # the slot label that `flux submit` uses
_UNITS = (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10), ("B", 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """The flags that say what a job runs and needs; None or empty: not given."""

    nodes: int | None = None
    tasks: int | None = None
    cores_per_task: int = 1
    gpus_per_task: int = 0
    gpus_per_node: int = 0
    memory: str = ""  # per node, such as 4G; a bare number is in MiB, as in Slurm
    memory_per_core: str = ""
    exclusive: bool = False
    command: tuple[str, ...] = ()
    script: str = ""  # runs once, on the first node


def request_from_flags(flags: Flags) -> Request:
    """Return the request for the flags; raise Invalid with the flag that is wrong."""
    flags = _with_defaults(flags)
    tasks = flags.tasks or 1
    slot = [Level(type="core", count=Count(flags.cores_per_task)), *_gpus(flags.gpus_per_task)]
    if flags.memory_per_core:
        slot.append(memory_level(_bytes(flags.memory_per_core, "--mem-per-cpu") * flags.cores_per_task))
    if flags.nodes is None:
        if flags.memory:
            slot.append(memory_level(-(-_bytes(flags.memory, "--mem") // tasks)))
        levels = spread_slot(Count(tasks), tuple(slot), label=LABEL, in_node=False)
    else:
        slots = Count(-(-tasks // flags.nodes))
        inside = [*spread_slot(slots, tuple(slot), label=LABEL, in_node=True), *_gpus(flags.gpus_per_node)]
        if flags.memory:
            inside.append(memory_level(_bytes(flags.memory, "--mem")))
        node = Level(type="node", count=Count(flags.nodes), exclusive=flags.exclusive, inside=tuple(inside))
        levels = (node,)
    return Request(groups=(Group(levels=levels, name=LABEL),), tasks=_tasks(flags, tasks))


def memory_level(amount: int) -> Level:
    """Return a level of `amount` bytes, in the largest exact binary unit."""
    if amount < 1:
        raise Invalid("an amount of memory must be more than 0")
    for unit, size in _UNITS:
        if amount % size == 0 and amount // size <= MAX_COUNT:
            return Level(type="memory", count=Count(amount // size), unit=unit)
    return Level(type="memory", count=Count(-(-amount // 2**20)), unit="MiB")


def _with_defaults(flags: Flags) -> Flags:
    """Check the flags and fill in Flux's defaults."""
    for name, value, least in (
        ("-N", flags.nodes, 1),
        ("-n", flags.tasks, 1),
        ("-c", flags.cores_per_task, 1),
        ("-g", flags.gpus_per_task, 0),
        ("--gpus-per-node", flags.gpus_per_node, 0),
    ):
        if value is not None and not least <= value <= MAX_COUNT:
            raise Invalid(f"expected a whole number from {least} to {MAX_COUNT}, not {value}", where=name)
    if flags.nodes is None:
        if flags.exclusive or flags.gpus_per_node:
            what = "--exclusive" if flags.exclusive else "--gpus-per-node"
            raise Invalid("needs a number of nodes: add -N", where=what)
        return flags
    if flags.tasks is None:
        return replace(flags, tasks=flags.nodes, exclusive=True)
    if flags.tasks < flags.nodes:
        raise Invalid(
            f"{flags.nodes} nodes need at least {flags.nodes} tasks, not {flags.tasks}; use -n {flags.nodes}",
            where="-N",
        )
    return flags


def _gpus(number: int) -> tuple[Level, ...]:
    return (Level(type="gpu", count=Count(number)),) if number else ()


def _bytes(text: str, where: str) -> int:
    with located(where):
        return parse_bytes(text, default="M")


def _tasks(flags: Flags, tasks: int) -> tuple[Task, ...]:
    if flags.script:
        return (Task(script=flags.script, group=LABEL, total=1),)
    if not flags.command:
        return ()
    return (Task(command=flags.command, group=LABEL, total=None if flags.nodes is None else tasks),)
