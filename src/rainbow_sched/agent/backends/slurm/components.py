"""Convert a request to sbatch options; several groups become components of a heterogeneous job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rainbow_sched.agent.backends.common.launches import copies, slots
from rainbow_sched.agent.backends.slurm.files import SrunStep, step_words
from rainbow_sched.agent.backends.slurm.shape import SlurmShape
from rainbow_sched.agent.backends.slurm.site import SlurmSite
from rainbow_sched.model.binding import GroupHosts
from rainbow_sched.model.errors import Unsupported
from rainbow_sched.model.request import Request, Task
from rainbow_sched.protocol.messages import AllowedHosts

MEMORY = ("--mem=", "--mem-per-cpu=")
LICENSES = "--licenses="


@dataclass(frozen=True, slots=True)
class Component:
    """One group of a request as sbatch options."""

    group: int  # index in `Request.groups`
    shape: SlurmShape
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SlurmJobRequest:
    """A request as sbatch options and srun steps."""

    components: tuple[Component, ...]  # in Slurm's order
    steps: tuple[SrunStep, ...] = ()  # srun steps; none: the batch script runs the only task

    @property
    def words(self) -> tuple[str, ...]:
        """Return the options of sbatch, components separated by a colon."""
        words: tuple[str, ...] = ()
        for component in self.components:
            words += (":", *component.words) if words else component.words
        return words


def of_group(request: Request, allowed: AllowedHosts, group: int) -> tuple[Request, AllowedHosts]:
    """Return the request with one of its groups, and the allowed hosts of that group."""
    hosts = allowed.of(group)
    bound = (GroupHosts(0, hosts),) if hosts else ()
    return replace(request, groups=(request.groups[group],)), AllowedHosts(bound, allowed.checked)


def components(made: Sequence[Component], site: SlurmSite) -> tuple[Component, ...]:
    """Return the components with the order and options that keep them independent.

    sbatch applies `--exclude` and `--mem` of one component to others without the option, so each gets its own. It
    rejects `--mem-per-cpu` after `--mem`, so components with `--mem` come last. Licenses are for the whole job.
    """
    if len(made) == 1:
        return tuple(made)
    if any(word.startswith("--mem=") for one in made for word in one.words):
        made = [_with_memory(one, site) for one in made]
    ordered = sorted(made, key=lambda one: any(word.startswith("--mem=") for word in one.words))
    first, *others = ordered
    return (first, *(_without_licenses(one) for one in others))


def _with_memory(component: Component, site: SlurmSite) -> Component:
    if any(word.startswith(MEMORY) for word in component.words):
        return component
    named = next((word.partition("=")[2] for word in component.words if word.startswith("--partition=")), "")
    return replace(component, words=(*component.words, site.default_memory(named.partition(",")[0])))


def _without_licenses(component: Component) -> Component:
    return replace(component, words=tuple(word for word in component.words if not word.startswith(LICENSES)))


def steps(request: Request, made: Sequence[Component], site: SlurmSite) -> tuple[SrunStep, ...]:
    """Return the srun steps; raise `Unsupported` for tasks that one srun cannot start together."""
    if len(made) == 1:
        shape = made[0].shape
        words = step_words(copies(request, request.tasks[0]), shape.nodes or shape.slots, shape.cores)
        return (SrunStep(0, words),) if words else ()
    index = {component.group: number for number, component in enumerate(made)}
    found: dict[int, tuple[int, int]] = {}  # group -> task index and count
    for number, task in enumerate(request.tasks):
        for group, many in _shared_out(request, task).items():
            if group in found:
                raise Unsupported(
                    f"Slurm runs one task in each group of resources; group {group + 1} of this request has several"
                )
            found[group] = number, many
    if len(found) > 1 and site.no_shared_steps:
        raise Unsupported("this Slurm is configured with disable_hetjob_steps: a step cannot use several groups")
    if [(index[group], many) for group, (_, many) in found.items()] == [(0, 1)]:
        return ()  # the batch script runs on the first node of the first component
    result = []
    for group, (number, many) in sorted(found.items()):
        shape = made[index[group]].shape
        words = step_words(many, shape.nodes or shape.slots, shape.cores, component=index[group])
        result.append(SrunStep(number, words))
    return tuple(result)


def _shared_out(request: Request, task: Task) -> dict[int, int]:
    """Return how often a task runs in each group: per slot, or a total distributed from the first group on."""
    mine = [n for n, group in enumerate(request.groups) if group.name == task.group] or range(len(request.groups))
    room = {n: task.per_slot * slots(request.groups[n]) for n in mine}
    if task.total is None and not task.script:
        return room
    left, found = copies(request, task), dict[int, int]()
    for n in mine:
        if left > 0:
            found[n] = min(left, room[n])
            left -= found[n]
    found[next(iter(found))] += left
    return found
