"""Which of our modules and which packages `rainbow jobs` and `rainbow submit` import: they start often."""

import subprocess
import sys

import pytest

from rainbow_sched.pb.v2 import jobs_pb2

ALONE = "import sys, click, grpc, google.protobuf; print(*sys.modules)"  # what every command needs
LIST = """
import sys
from rainbow_sched.cli.main import run
code = run(sys.argv[1:])
print("imported:", *sys.modules, file=sys.stderr)
sys.exit(code)
"""
BOTH = {
    *("cli", "cli.main", "cli.commands", "cli.input", "cli.input.options"),
    *("cli.render", "cli.render.listings", "cli.render.terminal", "cli.render.times"),
    *("cli.shell", "cli.shell.connect", "cli.shell.lazy_group"),
    *("client", "client.config", "client.connection", "client.jobs", "client.private_files", "client.settings"),
    *("client.statuses", "client.views"),
    *("model", "model.errors", "model.hints", "model.job_state", "pb", "pb.v2", "pb.v2.jobs_pb2"),
}
OURS = {
    "jobs": BOTH | {"cli.commands.jobs", "cli.render.jobs"},
    "submit": BOTH
    | {
        *("cli.commands.submit", "cli.input.job_options", "cli.input.job_request", "cli.shell.exit_codes"),
        *("client.submission", "documents", "documents.reader"),
        *("jobspecs", "jobspecs.canonical", "jobspecs.dialects", "jobspecs.dialects.flags"),
        *("jobspecs.manager_options", "jobspecs.reading", "jobspecs.reading.counts"),
        *("jobspecs.reading.fields",),
        *("model.attempt", "model.job", "model.quantities", "model.ranges", "model.request"),
    },
}
COMMANDS = {"jobs": ("jobs",), "submit": ("submit", "-n1", "--", "true")}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_imports_only_what_it_needs(server, command):
    server.answers["Jobs/List"] = jobs_pb2.ListJobsResponse(jobs=[jobs_pb2.Job(id=7, name="true", state="queued")])
    server.answers["Jobs/Submit"] = jobs_pb2.SubmitResponse(id=7, state="queued")
    done = subprocess.run(
        [sys.executable, "-c", LIST, *COMMANDS[command]], capture_output=True, text=True, timeout=60, check=True
    )
    assert "7" in done.stdout, "the command reached the server"
    names = {line.partition(":")[2] for line in done.stderr.splitlines() if line.startswith("imported:")}.pop().split()
    ours = {name.removeprefix("rainbow_sched.") for name in names if name.startswith("rainbow_sched.")}
    alone = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, timeout=60, check=True)
    packages = _packages(names) - _packages(alone.stdout.split())
    assert not (more := sorted(ours - OURS[command])), (
        f"`rainbow {command}` now also imports {', '.join(more)}; import it where it is used, or under TYPE_CHECKING"
    )
    assert not (fewer := sorted(OURS[command] - ours)), (
        f"`rainbow {command}` no longer imports {', '.join(fewer)}; take it out of this list"
    )
    assert not packages, (
        f"`rainbow {command}` now also imports {', '.join(sorted(packages))}; import packages where they are used"
    )


def _packages(modules):
    """Return the third-party packages of modules."""
    return {name.partition(".")[0] for name in modules} - sys.stdlib_module_names - {"rainbow_sched", "__main__"}
