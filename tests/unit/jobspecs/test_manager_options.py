"""Options for the manager: from directives and the command line to the stored request and the manager's command."""

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from rainbow_sched.agent.backends.slurm.options import option_words
from rainbow_sched.cli.input.job_options import JobCommand, JobOptions, job_options
from rainbow_sched.cli.input.job_request import prepare
from rainbow_sched.jobspecs.canonical import from_json
from rainbow_sched.jobspecs.manager_options import MANAGER_OPTIONS, ManagerOption
from rainbow_sched.jobspecs.registry import parse
from rainbow_sched.model.errors import Invalid

DIRECTIVES = {"sbatch": "#SBATCH", "flux": "# flux:", "rainbow": "#RAINBOW"}


@pytest.mark.parametrize("kind", DIRECTIVES)
@pytest.mark.parametrize("option", MANAGER_OPTIONS.values(), ids=str)
def test_an_option_is_stored_from_the_directives_that_have_it(option: ManagerOption, kind: str) -> None:
    text = f"#!/bin/sh\n{DIRECTIVES[kind]} --{option.name}=some\ntrue\n"
    if getattr(option, kind):
        request = parse(text)
        assert request.options == {option.name: "some"}
        assert not request.ignored
    elif kind == "rainbow":
        with pytest.raises(Invalid, match="unknown option"):
            parse(text)
    else:
        request = parse(text)
        assert request.options == {}
        assert option.name in request.ignored[0]


def test_an_option_with_a_help_text_goes_from_the_command_line_to_sbatch() -> None:
    example = ManagerOption("qos", sbatch=True, metavar="NAME", help="Quality of service.")
    prepared = []

    def submit(options: JobOptions) -> None:
        prepared.append(prepare(options, 0.0, {}))

    command = click.command(cls=JobCommand)(job_options(submit, [example]))
    assert "--qos NAME" in CliRunner().invoke(command, ["--help"]).output
    assert CliRunner().invoke(command, ["-n1", "--qos", "high", "--", "true"], catch_exceptions=False).exit_code == 0
    assert CliRunner().invoke(command, ["-n1", "--", "true"], catch_exceptions=False).exit_code == 0
    stored, without = (from_json(one.submission.canonical) for one in prepared)
    assert option_words(stored.options, {}) == ["--qos=high"]
    assert without.options == {}


def test_an_option_of_the_command_line_beats_the_directive_of_a_script(tmp_path: Path) -> None:
    path = tmp_path / "job.sh"
    path.write_text("#!/bin/sh\n#SBATCH --qos=low --account=lab\ntrue\n")
    request = prepare(JobOptions(file=str(path), manager={"qos": "high"}), 0.0, {}).request
    assert request.options == {"qos": "high", "account": "lab"}
    assert prepare(JobOptions(file=str(path)), 0.0, {}).submission.text, "an unchanged script is sent as it is"
