"""Tag, task counts, options and environment of a launch."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from rainbow_sched.agent.backends.base import Launch
from rainbow_sched.model.errors import Unsupported
from rainbow_sched.model.request import Group, Level, Request, Task

TAG = re.compile(r"rb-[0-9]{1,19}-[0-9]{1,10}")
PASSED_VARIABLES = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "SHELL", "TZ", "TMPDIR", "XDG_RUNTIME_DIR")
DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"


def slots(group: Group) -> int:
    """Return the number of slots of a group; 1 if it marks none."""

    def down(level: Level) -> int | None:
        if level.shared or level.label:
            return level.count.min
        found = next((n for inner in level.inside if (n := down(inner)) is not None), None)
        return None if found is None else found * level.count.min

    return next((n for level in group.levels if (n := down(level)) is not None), 1)


def copies(request: Request, task: Task) -> int:
    """Return how many times a task runs."""
    if task.total is not None:
        return task.total
    if task.script:
        return task.per_slot
    groups = [group for group in request.groups if group.name == task.group] or list(request.groups)
    return task.per_slot * sum(map(slots, groups))


def chosen_options(
    wanted: Mapping[str, str],
    site: Mapping[str, str],
    names: Sequence[str],
    synonyms: Mapping[str, str],
    handled: Collection[str],
    known: str,
) -> dict[str, str]:
    """Return the options of a job by a manager's `names`: the user's options over the site's defaults.

    `site` may translate values (`partition.gpu`), `handled` are options that are not for the manager, and `known` says
    in an error which options there are.
    """
    chosen = {name: site[name] for name in names if site.get(name)}
    for key, value in wanted.items():
        name = synonyms.get(key, key)
        if name in handled:
            continue
        if name not in names:
            raise Unsupported(f"unknown option {key!r}; {known}")
        chosen[name] = site.get(f"{name}.{value}", value)
    return chosen


def clean_environment(launch: Launch, agent: Mapping[str, str]) -> dict[str, str]:
    """Return the job's environment: a few variables of the agent, the job's own, and Rainbow's."""
    passed = {name: agent[name] for name in PASSED_VARIABLES if name in agent}
    own = {name: value for name, value in launch.request.environment.items() if not name.startswith("RAINBOW_")}
    rainbow = {
        "RAINBOW_JOB_ID": str(launch.job),
        "RAINBOW_ATTEMPT": str(launch.attempt),
        "RAINBOW_CLUSTER": launch.cluster,
        "RAINBOW_JOB_NAME": launch.name or launch.request.name,
        "RAINBOW_TASKS": str(sum(copies(launch.request, task) for task in launch.request.tasks)),
    }
    if launch.array_index is not None:
        rainbow["RAINBOW_ARRAY_INDEX"] = str(launch.array_index)
    return {"PATH": DEFAULT_PATH, **passed, **own, **rainbow}
