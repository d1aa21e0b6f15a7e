"""Options for the resources and terms of a job, shared by `submit`, `run` and `plan`."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from itertools import pairwise
from typing import Any, cast

import click

from rainbow_sched.cli.input.options import Command, WholeNumber, on_clusters
from rainbow_sched.jobspecs.manager_options import MANAGER_OPTIONS, ManagerOption
from rainbow_sched.model.job import DEFAULT_RERUNS, MAX_RETRIES_OR_RERUNS

COMMAND_KEY = "rainbow.command"


RERUN = "--rerun"


class RerunOption(click.Option):
    """`--rerun` or `--rerun=N`. The number needs `=`, because the next word may be the script."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        record = super().get_help_record(ctx)
        return record and (RERUN + "[=N]", record[1])


def _option(*names: str, default: Any = None, **attributes: Any) -> Any:
    """Return a field for the value of an option."""
    return field(default=default, metadata={"option": click.option(*names, default=default, **attributes)})


def _repeated(*names: str, metavar: str, help: str) -> Any:
    return _option(*names, default=(), multiple=True, metavar=metavar, help=help)


def _flag(name: str, help: str) -> Any:
    return _option(name, default=False, is_flag=True, help=help)


def _number(*names: str, least: int, help: str) -> Any:
    return _option(*names, type=WholeNumber(least), metavar="N", help=help)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """Values of the options, in the order of the help; None, empty or False: not given."""

    file: str | None = None
    argv: tuple[str, ...] = ()
    nodes: int | None = _number(
        "-N", "--nodes", least=1, help="Number of nodes; without -n or -c the job gets them exclusively."
    )
    tasks: int | None = _number("-n", "--tasks", "--ntasks", least=1, help="Total number of tasks.")
    cores: int | None = _number("-c", "--cores", "--cores-per-task", least=1, help="Cores per task.")
    gpus: int | None = _number("-g", "--gpus", "--gpus-per-task", least=0, help="GPUs per task.")
    gpus_per_node: int | None = _number("--gpus-per-node", least=0, help="GPUs per node; needs -N.")
    mem: str | None = _option("--mem", metavar="SIZE", help="Memory per node (without -N: of the job): 4G, 512M.")
    time: str | None = _option(
        "-t",
        "--time",
        "--time-limit",
        metavar="DURATION",
        help="Time limit: 30m, 1.5h, 01:30:00; a bare number is seconds.",
    )
    exclusive: bool = _flag("--exclusive", "Do not share the nodes with other jobs.")
    software: tuple[str, ...] = _repeated(
        "--software", metavar="SPEC", help="Required software: 'lammps@>=2024 +kokkos'; repeatable."
    )
    image: str | None = _option("--image", metavar="REF", help="Container image to run the job in.")
    compat: str | None = _option(
        "--compat", metavar="FILE", help="The image's compatibility document, which clusters must meet."
    )
    compat_table: str | None = _option(
        "--compat-table", metavar="FILE", help="The site's additional rules for entries of compatibility documents."
    )
    name: str | None = _option("--name", "--job-name", help="Name of the job (default: the command).")
    env: tuple[str, ...] = _repeated(
        "--env",
        metavar="KEY[=VALUE]",
        help="Environment variable; without a value, copied from yours. Repeatable.",
    )
    cwd: str | None = _option("--cwd", metavar="DIR", help="Working directory on the cluster (default: a new one).")
    command: str | None = _option(
        "--command", metavar="TEXT", help="Command as one text, split like a shell does; or write -- COMMAND."
    )
    jobspec: str | None = _option("--jobspec", metavar="FILE", help="The same as FILE.")
    manager: Mapping[str, str] = field(default_factory=dict)  # by name of `jobspecs/manager_options.py`
    select: str | None = _option(
        "--select", metavar="POLICY[:K=V,...]", help="Selection policy: random, least:key=queue_depth, start ..."
    )
    select_options: tuple[str, ...] = _repeated(
        "--select-option", "select_options", metavar="K=V", help="Option of the policy; V may be @FILE."
    )
    prefer: str | None = _option(
        "--prefer", type=click.Choice(["start", "cost"]), help="Prefer the earliest start or the lowest cost."
    )
    deadline: str | None = _option(
        "--deadline", metavar="TIME", help="Time by which the job must have ended: +6h, 18:00, 2026-11-16T09:00."
    )
    max_cost: float | None = _option("--max-cost", type=click.FloatRange(0), metavar="N", help="Maximum cost.")
    clusters: tuple[str, ...] = field(default=(), metadata={"option": on_clusters("Use only these clusters.")})
    not_clusters: str | None = _option(
        "--not", "not_clusters", metavar="NAME[,NAME]", help="Do not use these clusters."
    )
    hold: bool = _flag("--hold", "Hold the job until rainbow release.")
    start_after: str | None = _option("--start-after", metavar="TIME", help="Earliest start: +2h, 22:00.")
    priority: int = _option(
        "--priority", type=int, default=0, metavar="N", help="Priority among your jobs; higher starts first."
    )
    labels: tuple[str, ...] = _repeated(
        "--label", "labels", metavar="KEY=VALUE", help="Label to filter by; repeatable."
    )
    rerun: int = _option(
        RERUN,
        cls=RerunOption,
        type=WholeNumber(0, MAX_RETRIES_OR_RERUNS),
        default=0,
        help=f"Run again up to N times (default {DEFAULT_RERUNS}) after an unknown outcome: the cluster or a node was "
        "lost, or the job was preempted. Not after a failure.",
    )
    retries: int = _option(
        "--retries",
        type=WholeNumber(0, MAX_RETRIES_OR_RERUNS),
        default=0,
        metavar="N",
        help="Run again up to N times after a known failure. Not after an unknown outcome.",
    )
    lost_after: str | None = _option(
        "--lost-after",
        metavar="DURATION",
        help="Give up on a running job when its cluster has been unreachable for this long (default: 30m with --rerun "
        "on a single machine, else never).",
    )
    fail_fast: bool = _flag("--fail-fast", "Reject the job if no cluster can ever run it, instead of waiting.")
    array: str | None = _option(
        "--array", metavar="RANGE", help="Submit an array of jobs: 1-1000, 1-9:2, 0,3,5-7 (RAINBOW_ARRAY_INDEX)."
    )
    dependencies: tuple[str, ...] = _repeated(
        "-d",
        "--dependency",
        "dependencies",
        metavar="KIND:ID[:ID...][,...]",
        help="after, afterok, afternotok or afterany:ID; for an array: afterok:3-9. Repeatable.",
    )
    sign: bool = _flag("--sign", "Sign the job with your key, for sites that run only signed jobs.")
    key: str | None = _option(
        "--key", metavar="FILE", help="With --sign: file of the key (default: the key from rainbow key create)."
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
    for spec in reversed(fields(JobOptions)):
        if spec.name == "manager":
            for parameter, one in reversed(for_manager.items()):
                option = click.option(f"--{one.name}", parameter, metavar=one.metavar, help=one.help)
                decorated = option(decorated)
        elif spec.metadata:
            decorated = spec.metadata["option"](decorated)
    return cast(Command, decorated)
