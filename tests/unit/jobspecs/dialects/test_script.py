"""Scripts with #SBATCH, # flux: and #RAINBOW lines."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rainbow_sched.jobspecs.dialects.flags import Flags, request_from_flags
from rainbow_sched.jobspecs.dialects.script import is_script
from rainbow_sched.jobspecs.registry import parse
from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.request import Count, Level, Task


def sbatch(*lines):
    return parse("\n".join(["#!/bin/bash", *(f"#SBATCH {line}" for line in lines), "srun app", ""]))


def test_the_script_runs_once_as_it_is():
    text = "#!/bin/bash\n#SBATCH -n 4\nsrun app\n"
    assert parse(text).tasks == (Task(script=text, group="task", total=1),)


def test_the_usual_resources_of_sbatch_are_understood():
    request = sbatch("--nodes=2 --ntasks-per-node=4", "-c 2 --mem=16G", "--time=1-00:00:00 -J lmp", "--gres=gpu:2")
    flags = Flags(nodes=2, tasks=8, cores_per_task=2, gpus_per_node=2, memory="16G")
    assert request.groups == request_from_flags(flags).groups
    assert (request.duration, request.name, request.ignored) == (86400.0, "lmp", ())


def test_a_bare_time_of_sbatch_is_in_minutes_and_one_of_flux_in_seconds():
    assert sbatch("-t 30").duration == 1800
    assert parse("#!/bin/sh\n# flux: -t 30\n").duration == 30


def test_the_properties_that_flux_requires_are_kept_and_what_is_more_is_reported():
    request = parse("#!/bin/sh\n# flux: --requires=ib,-debug\n# flux: --requires=^old\n")
    assert (request.properties, request.ignored) == (("ib", "^debug", "^old"), ())
    request = parse("#!/bin/sh\n# flux: --requires='ib|host:n[1-3]'\n")
    assert (request.properties, len(request.ignored)) == ((), 1)


def test_nodes_of_sbatch_are_shared_unless_it_says_exclusive():
    assert not sbatch("-N 2").groups[0].levels[0].exclusive
    assert sbatch("-N 2", "--exclusive").groups[0].levels[0].exclusive


def test_memory_per_cpu_and_gpus_per_task_go_to_each_task():
    found = sbatch("-n 4 -c 2 --mem-per-cpu=1G --gpus-per-task=1").groups[0].levels[0]
    memory = Level(type="memory", count=Count(2), unit="GiB")
    assert found.inside == (Level(type="core", count=Count(2)), Level(type="gpu"), memory)


def test_names_of_one_site_are_kept_as_options():
    request = sbatch("-p gpu -A lab --qos=high", "--reservation=r --constraint=h100 --output=o.txt --error e.txt")
    assert request.options == {
        "partition": "gpu",
        "account": "lab",
        "qos": "high",
        "reservation": "r",
        "constraint": "h100",
        "output": "o.txt",
        "error": "e.txt",
    }
    assert request.ignored == ()


@pytest.mark.parametrize(
    ("line", "reported"),
    [
        ("--mail-type=END", "--mail-type=END"),
        ("--mail-user me@example.org", "--mail-user=me@example.org"),
        ("--array=1-10", "--array=1-10"),
        ("--wckey=x", "--wckey=x is not known"),
        ("--gres=gpu:a100:2", "a100"),
        ("--gres=shard:2", "--gres=shard:2"),
        ("--nodes=2-4", "only the least, 2"),
        ("--mem=0", "all memory"),
        ("--export=NONE", "NONE"),
        ("--hold", "--hold"),
        ("--dependency=afterok:7", "--dependency"),
    ],
)
def test_what_is_not_honoured_is_reported_with_its_line(line, reported):
    request = sbatch("-J x", line)
    sentence = next(sentence for sentence in request.ignored if reported in sentence)
    assert sentence.startswith("line 3: ")


def test_hosts_directory_and_environment_are_understood():
    request = sbatch("-w n[1-2] -x n9 -D /scratch --export=ALL,A=1,B=x")
    assert (request.hosts, request.not_hosts) == (("n1", "n2"), ("n9",))
    assert (request.cwd, request.environment, request.ignored) == ("/scratch", {"A": "1", "B": "x"}, ())


def test_a_directive_of_sbatch_after_the_first_command_is_reported():
    request = parse("#!/bin/sh\n# comment\n\n#SBATCH -n 2\nhostname\n#SBATCH -n 9\n")
    assert request.groups[0].levels[0].count == Count(2)
    assert request.ignored == ("line 6: a directive after the first command is not read",)


def test_flux_directives_are_read_as_rfc_36_says():
    request = parse(
        "#!/bin/sh\n# Set up:\n#FLUX: -N4   # four nodes\n#FLUX: --queue=batch --job-name='a b'\nflux run app\n"
    )
    assert request.groups == request_from_flags(Flags(nodes=4)).groups
    assert (request.options, request.name) == ({"queue": "batch"}, "a b")


def test_triple_quotes_of_flux_hold_anything_also_over_several_lines():
    one = parse("""#!/bin/sh\n# flux: -N1 --job-name='''It's a "job"'''\n""")
    assert one.name == 'It\'s a "job"'
    several = parse('#!/bin/sh\n# flux: --env=CONF="""\n# flux:  [a]\n# flux:    b = "c"\n# flux: """\n# flux: -n 2\n')
    assert several.environment == {"CONF": '[a]\n  b = "c"\n'}
    assert several.groups[0].levels[0].count == Count(2)
    with pytest.raises(Invalid, match="line 2: the triple quotes"):
        parse('#!/bin/sh\n# flux: --env=CONF="""\n# flux:  [a]\n')


def test_directives_may_stand_in_the_docstring_of_a_python_script():
    text = '#!/usr/bin/env python3\ndef main():\n    """\n    flux: -N4\n    flux: --queue=batch\n    """\n    run()\n'
    assert parse(text).groups == request_from_flags(Flags(nodes=4)).groups


@pytest.mark.parametrize(
    "text",
    [
        "#!/bin/sh\n#FLUX: -N1\nhostname; date\n#FLUX: --job-name=test\n",
        "#!/bin/sh\n#FLUX: -N1\n# flux: -n1\n",
        "#!/bin/sh\n# flux: -N x\n",
        "#!/bin/sh\n# flux: -N\n",
        "#!/bin/sh\n# flux: --job-name='a\n",
        "#!/bin/sh\n# flux: word\n",
        "#!/bin/sh\n#RAINBOW --nodse=2\n",
        "#!/bin/sh\n#SBATCH --time=soon\n",
        "#!/bin/sh\n#SBATCH -w n[3-1]\n",
        "#!/bin/sh\n#SBATCH -n 0\n",
        "#!/bin/sh\n#SBATCH -n 1\n\0",
    ],
)
def test_directives_that_make_no_sense_are_refused(text):
    with pytest.raises(Invalid):
        parse(text)


def test_rainbows_own_lines_take_the_same_letters_and_refuse_what_they_do_not_know():
    request = parse("#!/bin/sh\n#RAINBOW -N2 -n8 -c2 --mem 4G -t 30m -x\napp\n")
    assert (
        request.groups
        == request_from_flags(Flags(nodes=2, tasks=8, cores_per_task=2, memory="4G", exclusive=True)).groups
    )
    assert request.duration == 1800
    with pytest.raises(Invalid, match="did you mean 'nodes'"):
        parse("#!/bin/sh\n#RAINBOW --nods=2\n")


def test_a_document_with_comments_is_no_script():
    assert not is_script("# flux: the manager\nversion: 1\n")
    assert not is_script("a: |\n  #SBATCH -n 4\n")
    assert is_script("#SBATCH -n 4\n")
    assert is_script("# flux: -N4\n")


WORDS = [
    "-N 2",
    "--nodes=2",
    "-n",
    "x",
    "--mem=4G",
    "-t 1:2",
    "--gres=gpu:1",
    "'",
    '"',
    "#",
    "--",
    "-",
    "--=",
    "-z9",
    "é",
]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=6))
def test_any_words_give_a_request_or_invalid(words):
    for sentinel in ("#SBATCH", "# flux:", "#RAINBOW"):
        with contextlib.suppress(Invalid):
            assert parse(f"#!/bin/sh\n{sentinel} {' '.join(words)}\n").tasks


def test_gpus_in_all_are_shared_out_over_the_nodes():
    found = sbatch("-N 2 --gpus=5").groups[0].levels[0]
    assert found.inside[1] == Level(type="gpu", count=Count(3))
    alone = sbatch("--gpus=2")
    assert alone.groups[0].levels[0].inside[1].count == Count(2)
    assert alone.ignored == ("no number of nodes is given: 1 assumed",)
