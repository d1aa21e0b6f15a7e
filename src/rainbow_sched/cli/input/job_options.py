"""Options for the resources and terms of a job, shared by `submit`, `run` and `plan`."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from itertools import pairwise
from typing import Any, cast

import click

from rainbow_sched.cli.input.options import Command, WholeNumber, number, on_clusters
from rainbow_sched.jobspecs.manager_options import MANAGER_OPTIONS, ManagerOption
from rainbow_sched.model.job import DEFAULT_RERUNS, MAX_RETRIES_OR_RERUNS

COMMAND_KEY = "rainbow.command"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """Values of the options; None, empty or False: not given."""

    file: str | None = None
    jobspec: str | None = None
    argv: tuple[str, ...] = ()
    nodes: int | None = None
    tasks: int | None = None
    cores: int | None = None
    gpus: int | None = None
    gpus_per_node: int | None = None
    mem: str | None = None
    time: str | None = None
    exclusive: bool = False
    software: tuple[str, ...] = ()
    image: str | None = None
    compat: str | None = None
    compat_table: str | None = None
    name: str | None = None
    env: tuple[str, ...] = ()
    cwd: str | None = None
    command: str | None = None
    select: str | None = None
    select_options: tuple[str, ...] = ()
    prefer: str | None = None
    deadline: str | None = None
    max_cost: float | None = None
    clusters: tuple[str, ...] = ()
    not_clusters: str | None = None
    hold: bool = False
    start_after: str | None = None
    priority: int = 0
    labels: tuple[str, ...] = ()
    rerun: int = 0
    retries: int = 0
    lost_after: str | None = None
    fail_fast: bool = False
    array: str | None = None
    dependencies: tuple[str, ...] = ()
    sign: bool = False
    key: str | None = None
    manager: Mapping[str, str] = field(default_factory=dict)  # by name of `jobspecs/manager_options.py`


class RerunOption(click.Option):
    """`--rerun` or `--rerun=N`. The number needs `=`, because the next word may be the script."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        record = super().get_help_record(ctx)
        return record and (RERUN + "[=N]", record[1])


RERUN = "--rerun"
RESOURCES = (
    number("-N", "--nodes", least=1, help="Number of nodes; without -n or -c the job gets them exclusively."),
    number("-n", "--tasks", "--ntasks", "tasks", least=1, help="Total number of tasks."),
    number("-c", "--cores", "--cores-per-task", "cores", least=1, help="Cores per task."),
    number("-g", "--gpus", "--gpus-per-task", "gpus", least=0, help="GPUs per task."),
    number("--gpus-per-node", least=0, help="GPUs per node; needs -N."),
    click.option("--mem", metavar="SIZE", help="Memory per node (without -N: of the job): 4G, 512M."),
    click.option(
        "-t",
        "--time",
        "--time-limit",
        "time",
        metavar="DURATION",
        help="Time limit: 30m, 1.5h, 01:30:00; a bare number is seconds.",
    ),
    click.option("--exclusive", is_flag=True, help="Do not share the nodes with other jobs."),
    click.option(
        "--software", multiple=True, metavar="SPEC", help="Required software: 'lammps@>=2024 +kokkos'; repeatable."
    ),
    click.option("--image", metavar="REF", help="Container image to run the job in."),
    click.option("--compat", metavar="FILE", help="The image's compatibility document, which clusters must meet."),
    click.option(
        "--compat-table",
        metavar="FILE",
        help="The site's additional rules for entries of compatibility documents.",
    ),
    click.option("--name", "--job-name", "name", help="Name of the job (default: the command)."),
    click.option(
        "--env",
        multiple=True,
        metavar="KEY[=VALUE]",
        help="Environment variable; without a value, copied from yours. Repeatable.",
    ),
    click.option("--cwd", metavar="DIR", help="Working directory on the cluster (default: a new one)."),
    click.option(
        "--command", metavar="TEXT", help="Command as one text, split like a shell does; or write -- COMMAND."
    ),
    click.option("--jobspec", metavar="FILE", help="The same as FILE."),
)
TERMS = (
    click.option(
        "--select", metavar="POLICY[:K=V,...]", help="Selection policy: random, least:key=queue_depth, start ..."
    ),
    click.option(
        "--select-option", "select_options", multiple=True, metavar="K=V", help="Option of the policy; V may be @FILE."
    ),
    click.option(
        "--prefer", type=click.Choice(["start", "cost"]), help="Prefer the earliest start or the lowest cost."
    ),
    click.option(
        "--deadline", metavar="TIME", help="Time by which the job must have ended: +6h, 18:00, 2026-11-16T09:00."
    ),
    click.option("--max-cost", type=click.FloatRange(0), metavar="N", help="Maximum cost."),
    on_clusters("Use only these clusters."),
    click.option("--not", "not_clusters", metavar="NAME[,NAME]", help="Do not use these clusters."),
    click.option("--hold", is_flag=True, help="Hold the job until rainbow release."),
    click.option("--start-after", metavar="TIME", help="Earliest start: +2h, 22:00."),
    click.option("--priority", type=int, default=0, metavar="N", help="Priority among your jobs; higher starts first."),
    click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="Label to filter by; repeatable."),
    click.option(
        RERUN,
        cls=RerunOption,
        type=WholeNumber(0, MAX_RETRIES_OR_RERUNS),
        default=0,
        help=f"Run again up to N times (default {DEFAULT_RERUNS}) after an unknown outcome: the cluster or a node was "
        "lost, or the job was preempted. Not after a failure.",
    ),
    click.option(
        "--retries",
        type=WholeNumber(0, MAX_RETRIES_OR_RERUNS),
        default=0,
        metavar="N",
        help="Run again up to N times after a known failure. Not after an unknown outcome.",
    ),
    click.option(
        "--lost-after",
        metavar="DURATION",
        help="Give up on a running job when its cluster has been unreachable for this long (default: 30m with --rerun "
        "on a single machine, else never).",
    ),
    click.option("--fail-fast", is_flag=True, help="Reject the job if no cluster can ever run it, instead of waiting."),
    click.option(
        "--array", metavar="RANGE", help="Submit an array of jobs: 1-1000, 1-9:2, 0,3,5-7 (RAINBOW_ARRAY_INDEX)."
    ),
    click.option(
        "-d",
        "--dependency",
        "dependencies",
        multiple=True,
        metavar="KIND:ID[:ID...][,...]",
        help="after, afterok, afternotok or afterany:ID; for an array: afterok:3-9. Repeatable.",
    ),
    click.option("--sign", is_flag=True, help="Sign the job with your key, for sites that run only signed jobs."),
    click.option(
        "--key", metavar="FILE", help="With --sign: file of the key (default: the key from rainbow key create)."
    ),
)


class JobCommand(click.Command):
    """A command that takes everything after `--` as the command line of the job."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Remove the job's command line before click parses the rest."""
        if "--" in args:
            separator = args.index("--")
            ctx.meta[COMMAND_KEY] = tuple(args[separator + 1 :])
            args = args[:separator]
        try:
            return super().parse_args(ctx, _with_rerun_counts(args))
        except click.NoSuchOption:
            raise
        except click.UsageError as error:
            if "unexpected extra argument" in error.message:
                message = "only one FILE is allowed; to run a command, write -- before it, as in: -- echo hello"
                raise click.UsageError(message, ctx) from None
            raise

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return ["[OPTIONS] FILE | [OPTIONS] -- COMMAND..."]


def _with_rerun_counts(args: list[str]) -> list[str]:
    """Add the default number to each `--rerun` without one; click would take the next word."""
    for word, next_word in pairwise(args):
        if word == RERUN and next_word.isdecimal():
            raise click.UsageError(f"write the number of {RERUN} after =, as in {RERUN}={next_word}")
    return [f"{RERUN}={DEFAULT_RERUNS}" if word == RERUN else word for word in args]


def job_options(
    command: Command, manager_options: Iterable[ManagerOption] = tuple(MANAGER_OPTIONS.values())
) -> Command:
    """Add all job options to a command, as one argument `options`."""
    for_manager = {f"manager_{number}": one for number, one in enumerate(manager_options) if one.help}

    @click.argument("file", required=False)
    @functools.wraps(command)
    def with_options(*args: Any, **kwargs: Any) -> Any:
        kwargs["argv"] = click.get_current_context().meta.get(COMMAND_KEY, ())
        given = {one.name: kwargs.pop(parameter) for parameter, one in for_manager.items()}
        kwargs["manager"] = {name: value for name, value in given.items() if value is not None}
        options = JobOptions(**{field.name: kwargs.pop(field.name) for field in fields(JobOptions)})
        return command(*args, options=options, **kwargs)

    decorated: Any = with_options
    managers = (
        click.option(f"--{one.name}", parameter, metavar=one.metavar, help=one.help)
        for parameter, one in for_manager.items()
    )
    for option in reversed((*RESOURCES, *managers, *TERMS)):
        decorated = option(decorated)
    return cast(Command, decorated)
