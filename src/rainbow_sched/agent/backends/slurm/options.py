"""Convert a request to sbatch options; several groups become components of a heterogeneous job.

Site options (partition, account, qos ...) and extra options are converted by allow-list.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from rainbow_sched.agent.backends.common.launches import chosen_options, copies, slots
from rainbow_sched.agent.backends.slurm.files import SrunStep, step_words
from rainbow_sched.agent.backends.slurm.shape import SlurmShape
from rainbow_sched.agent.backends.slurm.site import SlurmSite
from rainbow_sched.model.binding import GroupHosts
from rainbow_sched.model.errors import Invalid, Unsupported
from rainbow_sched.model.hostlist import expand
from rainbow_sched.model.request import Request, Task
from rainbow_sched.protocol.messages import AllowedHosts

MEMORY = ("--mem=", "--mem-per-cpu=")
LICENSES = "--licenses="
SITE = ("partition", "account", "qos", "constraint", "reservation", "licenses")
SYNONYMS: Mapping[str, str] = {"queue": "partition", "bank": "account"}  # Flux's names for the same
OWN = frozenset({"output", "error", "clusters", "project"})  # handled by Rainbow, or not for Slurm
EXTRA = "extra"
ALLOWED_EXTRA = (
    "nice",
    "hint",
    "contiguous",
    "distribution",
    "switches",
    "core-spec",
    "thread-spec",
    "spread-job",
    "tmp",
)
EXCLUDE, NODE_LISTS = "exclude", frozenset({"nodelist", "nodefile"})  # extra options about nodes
_VALUE = re.compile(r"[\w.,:;@%/+&|*()\[\]=^-]{1,200}", re.ASCII)
_EXTRA = re.compile(r"--([a-z][a-z-]*)(?:=(.*))?", re.DOTALL)
_SIMPLE = re.compile(r"[\w.&-]+", re.ASCII)


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


def site_options(wanted: Mapping[str, str], site: Mapping[str, str]) -> dict[str, str]:
    """Return the site options of a job: the user's options over the site's defaults."""
    known = f"this site has {', '.join((*SITE, EXTRA))}"
    return chosen_options(wanted, site, SITE, SYNONYMS, (*OWN, EXTRA, "input"), known)


def one_partition(required: str, wanted: Mapping[str, str], chosen: Mapping[str, str]) -> str:
    """Return the required partition, else the chosen ones; raise `Unsupported` if the user chose others."""
    named = chosen.get("partition", "")
    own = any(SYNONYMS.get(key, key) == "partition" for key in wanted)
    if required and own and required not in named.split(","):
        raise Unsupported(f"a job runs in one partition, not in {named} and {required}")
    return required or named


def option_words(
    wanted: Mapping[str, str], site: Mapping[str, str], partition: str = "", features: Collection[str] = ()
) -> list[str]:
    """Return the sbatch options of a job; raise `Unsupported` for an option that is not allowed.

    `site` is the agent's configuration: defaults such as `partition = batch`, and translations such as
    `partition.gpu = gpu-a100`. `partition` and `features` are those of the request.
    """
    chosen = site_options(wanted, site)
    if partition:
        chosen["partition"] = partition
    if features:
        chosen["constraint"] = _joined(chosen.get("constraint", ""), "&".join(sorted(features)))
    words = []
    for name, value in chosen.items():
        if not _VALUE.fullmatch(value):
            raise Unsupported(f"{name}={value[:40]!r} has characters that Slurm does not allow in names")
        words.append(f"--{name}={value}")
    if wanted.get("input"):
        words.append(f"--input={wanted['input']}")
    return [*words, *_extra_words(wanted.get(EXTRA, ""), site)]


def _joined(constraint: str, features: str) -> str:
    """Return the user's constraint with the features of the request."""
    if constraint and not _SIMPLE.fullmatch(constraint):
        raise Unsupported(f"the constraint {constraint!r} cannot be joined with the features {features}")
    return f"{constraint}&{features}" if constraint else features


def nodes_in_extra(wanted: Mapping[str, str]) -> tuple[list[str], bool]:
    """Return the nodes of `--exclude` in the extra options, and whether they name nodes; raise `Unsupported`.

    Slurm honours only the last `--exclude`, so ours must include the user's.
    """
    exclude: list[str] = []
    named = False
    for word in _split(wanted.get(EXTRA, "")):
        name, _, value = word.removeprefix("--").partition("=")
        named = named or name in NODE_LISTS
        if name == EXCLUDE:
            try:
                exclude += expand(value)
            except Invalid as problem:
                raise Unsupported(f"--exclude: {problem}") from None
    return exclude, named


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise Unsupported(f"the extra options {text[:60]!r} cannot be parsed: {error}") from None


def _extra_words(text: str, site: Mapping[str, str]) -> list[str]:
    allowed = {*ALLOWED_EXTRA, *(name.strip() for name in site.get("allow_extra", "").split(",") if name.strip())}
    words = []
    for word in _split(text):
        found = _EXTRA.fullmatch(word)
        if found is None:
            raise Unsupported(f"an extra option must be --name or --name=value, not {word[:40]!r}")
        if found[1] not in allowed:
            raise Unsupported(f"this site does not allow --{found[1]}; it allows {', '.join(sorted(allowed))}")
        if found[2] is not None and not _VALUE.fullmatch(found[2]):
            raise Unsupported(f"the value of --{found[1]} has characters that are not allowed")
        if found[1] != EXCLUDE:  # included in our own
            words.append(word)
    return words
