"""The options that say what a job asks for and on which terms, shared by `submit`, `run` and `plan`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any, TypeVar, cast

import click

from rainbow_sched.cli.input.options import Whole, on_clusters
from rainbow_sched.model.job import DEFAULT_RERUNS, MAX_RETRIES_OR_RERUNS

Command = TypeVar("Command", bound=Callable[..., Any])
COMMAND_KEY = "rainbow.command"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What was typed; None, empty or False: not said."""

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


class Rerun(click.Option):
    """`--rerun` alone or `--rerun=N`: a number counts only after `=`, for the next word may be the script."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Show it as it is written."""
        record = super().get_help_record(ctx)
        return record and (RERUN + "[=N]", record[1])


RERUN = "--rerun"
RESOURCES = (
    click.option("-N", "--nodes", type=Whole(1), metavar="N", help="Nodes; alone, each one whole."),
    click.option("-n", "--tasks", "--ntasks", "tasks", type=Whole(1), metavar="N", help="Tasks in all."),
    click.option("-c", "--cores", "--cores-per-task", "cores", type=Whole(1), metavar="N", help="Cores of each task."),
    click.option("-g", "--gpus", "--gpus-per-task", "gpus", type=Whole(0), metavar="N", help="GPUs of each task."),
    click.option("--gpus-per-node", type=Whole(0), metavar="N", help="GPUs of each node; needs -N."),
    click.option("--mem", metavar="SIZE", help="Memory of each node (without -N: of the job): 4G, 512M."),
    click.option(
        "-t",
        "--time",
        "--time-limit",
        "time",
        metavar="DURATION",
        help="Time limit: 30m, 1.5h, 01:30:00; a bare number is seconds.",
    ),
    click.option("--exclusive", is_flag=True, help="Take the nodes for this job alone."),
    click.option(
        "--software", multiple=True, metavar="SPEC", help="Needed software: 'lammps@>=2024 +kokkos'; repeatable."
    ),
    click.option("--image", metavar="REF", help="Container image that the job runs in."),
    click.option("--compat", metavar="FILE", help="The image's compatibility document; clusters must meet it."),
    click.option("--compat-table", metavar="FILE", help="The site's own rows for what such a document may ask."),
    click.option("--name", "--job-name", "name", help="Name of the job (default: the command)."),
    click.option(
        "--env", multiple=True, metavar="KEY[=VALUE]", help="Environment; without a value, yours. Repeatable."
    ),
    click.option("--cwd", metavar="DIR", help="Working directory on the cluster (default: one of its own)."),
    click.option(
        "--command", metavar="TEXT", help="The command as one text, split as a shell would; or write -- COMMAND."
    ),
    click.option("--jobspec", metavar="FILE", help="The same as FILE."),
)
TERMS = (
    click.option(
        "--select", metavar="POLICY[:K=V,...]", help="Policy that chooses: random, least:key=queue_depth, start ..."
    ),
    click.option(
        "--select-option", "select_options", multiple=True, metavar="K=V", help="Option of the policy; V may be @FILE."
    ),
    click.option("--prefer", type=click.Choice(["start", "cost"]), help="The earliest start, or the lowest cost."),
    click.option("--deadline", metavar="TIME", help="Must have ended by: +6h, 18:00, 2026-11-16T09:00."),
    click.option("--max-cost", type=click.FloatRange(0), metavar="N", help="Must not cost more than this."),
    on_clusters("Only these clusters."),
    click.option("--not", "not_clusters", metavar="NAME[,NAME]", help="None of these clusters."),
    click.option("--hold", is_flag=True, help="Do not start before rainbow release."),
    click.option("--start-after", metavar="TIME", help="Do not start before: +2h, 22:00."),
    click.option("--priority", type=int, default=0, metavar="N", help="Higher goes first among your jobs."),
    click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="Label to filter by; repeatable."),
    click.option(
        RERUN,
        cls=Rerun,
        type=Whole(0, MAX_RETRIES_OR_RERUNS),
        default=0,
        help=f"Run again up to N times (without a number: {DEFAULT_RERUNS}) after an unknown outcome: the cluster or "
        "a node was lost, or the job was preempted. Not after a failure.",
    ),
    click.option(
        "--retries",
        type=Whole(0, MAX_RETRIES_OR_RERUNS),
        default=0,
        metavar="N",
        help="Run again up to N times after a known failure. Not after an unknown outcome.",
    ),
    click.option(
        "--lost-after",
        metavar="DURATION",
        help="Give a run up when its cluster is silent for so long (default: 30m with --rerun, else never).",
    ),
    click.option(
        "--fail-fast", is_flag=True, help="Refuse at once what no cluster could ever run, instead of waiting."
    ),
    click.option("--array", metavar="RANGE", help="Many jobs in one: 1-1000, 1-9:2, 0,3,5-7 (RAINBOW_ARRAY_INDEX)."),
    click.option(
        "-d",
        "--dependency",
        "dependencies",
        multiple=True,
        metavar="KIND:ID[:ID...][,...]",
        help="after, afterok, afternotok or afterany:ID; of an array: afterok:3-9. Repeatable.",
    ),
    click.option("--sign", is_flag=True, help="Sign it with your key, for sites that run signed jobs only."),
    click.option("--key", metavar="FILE", help="With --sign: another key than the one of rainbow key create."),
)


class WithCommand(click.Command):
    """A command that takes everything after `--` as the job's own command line, untouched."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Cut the job's command line off before click sees it."""
        if "--" in args:
            at = args.index("--")
            ctx.meta[COMMAND_KEY] = tuple(args[at + 1 :])
            args = args[:at]
        try:
            return super().parse_args(ctx, _with_number_of_reruns(args))
        except click.NoSuchOption:
            raise
        except click.UsageError as error:
            if "unexpected extra argument" in error.message:
                message = "one FILE is taken; to run a command, write -- before it, as in: -- echo hello"
                raise click.UsageError(message, ctx) from None
            raise

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Show the `--` in the usage line."""
        return ["[OPTIONS] FILE | [OPTIONS] -- COMMAND..."]


def _with_number_of_reruns(args: list[str]) -> list[str]:
    """Give each bare `--rerun` its number: click would take the next word for it."""
    for word, following in pairwise(args):
        if word == RERUN and following.isdecimal():
            raise click.UsageError(f"{RERUN} takes its number after =, as in {RERUN}={following}")
    return [f"{RERUN}={DEFAULT_RERUNS}" if word == RERUN else word for word in args]


def asks(command: Command) -> Command:
    """Give a command all of these options, as one argument `asked`."""

    @click.argument("file", required=False)
    @functools.wraps(command)
    def with_asked(*args: Any, **kwargs: Any) -> Any:
        kwargs["argv"] = click.get_current_context().meta.get(COMMAND_KEY, ())
        asked = Asked(**{field.name: kwargs.pop(field.name) for field in fields(Asked)})
        return command(*args, asked=asked, **kwargs)

    decorated: Any = with_asked
    for option in reversed((*RESOURCES, *TERMS)):
        decorated = option(decorated)
    return cast(Command, decorated)
