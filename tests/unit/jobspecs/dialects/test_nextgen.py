"""The prototype's jobspec, with the meaning that the design gives it."""

import pytest

from rainbow_sched.jobspecs.registry import parse
from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.request import Count, Equals, Level, Requirement, Runs, Task, Within


def levels(text):
    """The only level of each group."""
    return [group.levels[0] for group in parse(text).groups]


def core(count, **more):
    return Level(type="core", count=Count(count), **more)


def test_replicas_mark_slots_that_lie_in_hosts_which_may_be_shared():
    (found,) = levels("resources: {ior: {type: node, replicas: 4, with: [{type: core, count: 2}]}}")
    assert found == Level(type="node", count=Count(4), shared=True, abstract=True, inside=(core(2),))


def test_counts_below_a_slot_are_totals_spread_evenly():
    (found,) = levels(
        """
        resources:
          task-resources:
            type: rack
            replicas: 1
            with:
            - {type: node, count: 3, with: [{type: core, count: 8}]}
        """
    )
    node = Level(type="node", count=Count(3), inside=(core(3),))
    assert found == Level(type="rack", shared=True, abstract=True, inside=(node,))


def test_totals_are_spread_over_the_vertices_that_are_really_there():
    (found,) = levels(
        "resources: {a: {type: node, count: 2, with: [{type: socket, count: 3, with: [{type: core, count: 8}]}]}}"
    )
    (socket,) = found.inside
    assert (socket.count, socket.inside[0].count) == (Count(2), Count(2))


def test_a_slot_without_contents_takes_the_hosts_themselves():
    assert levels("resources: {a: {type: core, replicas: 8}}") == [core(8)]
    assert levels("resources: {a: {type: node, replicas: 4, count: 2}}") == [Level(type="node", count=Count(8))]


def test_without_replicas_each_resource_is_one_slot():
    found = levels("resources: {a: {type: node, count: 4, with: [{type: core, count: 8}]}, b: {type: core, count: 3}}")
    assert found == [Level(type="node", count=Count(4), abstract=True, inside=(core(2),)), core(3)]


def test_counts_above_a_slot_multiply():
    (found,) = levels(
        "resources: {a: {type: rack, count: 2, with: [{type: node, replicas: 3, with: [{type: core, count: 4}]}]}}"
    )
    slot = Level(type="node", count=Count(3), shared=True, abstract=True, inside=(core(4),))
    assert found == Level(type="rack", count=Count(2), abstract=True, inside=(slot,))


def test_a_level_of_type_slot_disappears_into_what_it_holds():
    (found,) = levels(
        "resources: {a: {type: node, count: 4, with: [{type: slot, count: 2, with: [{type: core, count: 3}]}]}}"
    )
    assert found == Level(type="node", count=Count(4), abstract=True, inside=(core(6),))


def test_one_resource_may_stand_under_with_without_a_list():
    assert levels("resources: {a: {type: node, with: {type: gpu, count: 4}}}")[0].inside[0].count == Count(4)


def test_schedule_leaves_out_all_others_and_says_so():
    request = parse(
        """
        resources:
          a: {type: node, schedule: true}
          b: {type: node}
          c: {type: node, with: [{type: core, schedule: true}]}
        """
    )
    assert [group.name for group in request.groups] == ["a", "c"]
    assert len(request.ignored) == 1
    assert request.ignored[0].startswith("resources.b: not asked for")


def test_schedule_chooses_between_slots_of_one_resource():
    (found,) = levels(
        """
        resources:
          a:
            type: rack
            with:
            - {type: node, replicas: 1, schedule: true, with: [{type: core}]}
            - {type: node, replicas: 2, with: [{type: gpu}]}
        """
    )
    assert [inner.count for inner in found.inside] == [Count(1)]


def test_labels_units_exclusive_and_ranges_are_kept():
    (found,) = levels(
        """
        resources:
          a:
            type: node
            replicas: {min: 2, max: 8}
            exclusive: true
            label: db
            with: [{type: memory, count: 16, unit: GB}]
        """
    )
    assert (found.count, found.exclusive, found.label) == (Count(2, 8), True, "db")
    assert found.inside == (Level(type="memory", count=Count(16), unit="GB"),)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("[{name: io, field: type, match: shm}]", [Requirement("io", (Equals("type", "shm"),))]),
        ("[{name: io, field: type, value: 5}]", [Requirement("io", (Equals("type", 5),))]),
        (
            "[{name: spack, field: version, min: '0.5.1', max: 0.5.5}]",
            [Requirement("spack", (Within("version", "0.5.1", "0.5.5"),))],
        ),
        ("[{name: arch, field: target, runs: x86_64_v3}]", [Requirement("arch", (Runs("target", "x86_64_v3"),))]),
        (
            "[{name: spack, all: [{field: name, match: lammps}, {field: version, min: 2024}]}]",
            [Requirement("spack", (Equals("name", "lammps"), Within("version", 2024)))],
        ),
        (
            "[{name: spack, field: type, match: package, attribute: name, value: lammps}]",
            [Requirement("spack", (Equals("type", "package"), Equals("name", "lammps")))],
        ),
        ("{io.archspec: {cpu.target: amd64}}", [Requirement("io.archspec", (Equals("cpu.target", "amd64"),))]),
        (
            "{spack: [{type: compiler, name: gcc, version: {min: 12}, with: [{type: package}]}]}",
            [
                Requirement(
                    "spack",
                    (Equals("type", "compiler"), Equals("name", "gcc"), Within("version", 12)),
                    (Requirement("spack", (Equals("type", "package"),)),),
                )
            ],
        ),
    ],
)
def test_requirements_are_read_in_each_form_at_each_place(written, meant):
    (found,) = levels(f"resources: {{a: {{type: node, requires: {written}}}}}")
    assert list(found.requires) == meant
    assert list(parse(f"requires: {written}\nresources: {{a: {{type: node}}}}").requires) == meant


def test_two_requirements_on_one_subsystem_both_count():
    (found,) = levels(
        "resources: {a: {type: node, requires: [{name: c, field: v, match: gcc}, {name: c, field: v, match: 12.1}]}}"
    )
    assert len(found.requires) == 2


def test_named_blocks_at_the_top_are_required_and_can_be_referred_to():
    text = "requires: {soft: [{name: spack, field: name, match: ior}]}\nresources: {a: {type: node}}\n"
    text += "tasks: [{command: [a], requires: %s}]"
    assert parse(text % "soft").requires == (Requirement("spack", (Equals("name", "ior"),)),)
    with pytest.raises(Invalid, match=r"tasks\[0\].requires.*did you mean 'soft'"):
        parse(text % "sort")


def test_the_requirements_of_a_task_hold_at_its_nodes():
    request = parse(
        """
        resources:
          a: {type: rack, replicas: 1, with: [{type: node, count: 2}]}
          b: {type: core, replicas: 2}
        tasks:
        - {command: [x], resources: a, requires: [{name: io, field: t, match: v}]}
        """
    )
    wanted = (Requirement("io", (Equals("t", "v"),)),)
    assert request.groups[0].levels[0].requires == ()
    assert request.groups[0].levels[0].inside[0].requires == wanted
    assert request.groups[1].levels[0].requires == ()


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("task: {command: [ior, -a]}", Task(command=("ior", "-a"))),
        ("tasks: [{command: \"bash -c 'echo a b'\"}]", Task(command=("bash", "-c", "echo a b"))),
        ("tasks: [{command: [x, ''], resources: a, replicas: 3}]", Task(command=("x", ""), group="a", per_slot=3)),
        ("tasks: [{command: [x], resources: here, count: {total: 5}}]", Task(command=("x",), group="a", total=5)),
        ('tasks: [{command: "#!/bin/sh\\necho"}]', Task(script="#!/bin/sh\necho")),
    ],
)
def test_tasks_are_read_in_each_form(written, meant):
    assert parse(f"resources: {{a: {{type: node, label: here}}}}\n{written}").tasks == (meant,)


def test_resources_written_inside_a_task_count_too():
    request = parse("tasks: [{name: build, command: [make], resources: {type: node, count: 2}}]")
    assert [group.name for group in request.groups] == ["build"]
    assert request.tasks[0].group == "build"


def test_attributes_become_parts_of_the_request():
    request = parse(
        """
        name: lmp
        resources: {a: {type: node}}
        attributes:
          duration: 1.5h
          cwd: /tmp
          environment: {A: 1, B: x, C: true}
          parameter: {seconds_per_gb: 0.4}
        """
    )
    assert (request.name, request.duration, request.cwd) == ("lmp", 5400.0, "/tmp")
    assert request.environment == {"A": "1", "B": "x", "C": "true"}
    assert request.parameters == {"seconds_per_gb": 0.4}


def test_attributes_of_a_resource_count_unless_the_job_said_it_already():
    request = parse("resources: {a: {type: node, attributes: {duration: 60, color: red}}}")
    assert request.duration == 60
    assert len(request.ignored) == 1


@pytest.mark.parametrize(
    ("written", "reported"),
    [
        ("groups: [{name: g, tasks: []}]", "groups"),
        ("tasks: [{command: [x], depends_on: [y]}]", "tasks[0].depends_on"),
        ("tasks: [{command: [x], local: true}]", "tasks[0].local"),
        ("tasks: [{group: g}]", "tasks[0].group"),
        ("tasks: [{command: [x], resources: b|c}]", "tasks[0].resources"),
        ("attributes: {durration: 5}", "attributes.durration"),
        ("attributes: {environment: {A: null}}", "attributes.environment.A"),
    ],
)
def test_what_is_known_and_not_honoured_is_reported(written, reported):
    (sentence,) = parse(f"resources: {{a: {{type: node}}}}\n{written}").ignored
    assert sentence.startswith(f"{reported}: ")


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        ("resorces: {a: {type: node}}", "resorces (line 1)", "did you mean 'resources'"),
        ("resources:\n  a:\n    type: node\n    replica: 2", "resources.a.replica (line 4)", "did you mean 'replicas'"),
        (
            "resources:\n  ior:\n    type: node\n    with:\n    - count: x\n      type: core",
            "resources.ior.with[0].count (line 5)",
            "count",
        ),
        ("resources: {a: {count: 2}}", "resources.a (line 1)", "'type' is missing"),
        ("resources: {}", "resources", "at least one"),
        ("version: 1", "", "'resources' is missing"),
        ("version: 2\nresources: {a: {type: node}}", "version (line 1)", "version"),
        ("resources: {a: {type: node, exclusive: yes}}", "resources.a.exclusive (line 1)", "true or false"),
        (
            "resources: {a: {type: node, replicas: 2, count: 2, with: [{type: core}]}}",
            "resources.a.count (line 1)",
            "not both",
        ),
        (
            "resources: {a: {type: rack, replicas: 2, with: [{type: node, replicas: 2}]}}",
            "resources.a.with[0]",
            "is inside another slot",
        ),
        (
            "resources: {a: {type: node, requires: [{name: io, match: x}]}}",
            "resources.a.requires[0]",
            "'field' is missing",
        ),
        (
            "resources: {a: {type: node, requires: [{field: t, match: x}]}}",
            "resources.a.requires[0]",
            "'name' is missing",
        ),
        ("resources: {a: {type: node, requires: [{name: io, field: t}]}}", "resources.a.requires[0]", "needs match"),
        ("resources: {a: {type: node, requires: {io: yes}}}", "resources.a.requires.io", "expected fields"),
        ("resources: {a: {type: node}}\ntasks: [{}]", "tasks[0]", "needs a command"),
        ('resources: {a: {type: node}}\ntasks: [{command: "a \'b"}]', "tasks[0].command", "split"),
        ("resources: {a: {type: node}}\nattributes: {parameter: 5}", "attributes.parameter", "a map"),
        ("resources: {a: {type: node}}\nattributes: {duration: -5}", "attributes.duration", "at least 0"),
    ],
)
def test_what_is_not_understood_is_refused_where_it_stands(text, where, what):
    with pytest.raises(Invalid) as error:
        parse(text)
    assert error.value.where.startswith(where)
    assert what in error.value.what


def test_schedule_above_a_slot_holds_for_the_slot():
    (found,) = levels(
        """
        resources:
          a: {type: rack, schedule: true, with: [{type: node, replicas: 1, with: [{type: core}]}]}
          b: {type: node}
        """
    )
    assert found.type == "rack"


def test_the_requirements_of_a_task_are_added_to_those_of_the_node():
    (found,) = levels(
        """
        resources: {a: {type: node, requires: [{name: arch, field: t, match: v}]}}
        tasks: [{command: [x], requires: [{name: io, field: t, match: v}]}]
        """
    )
    assert [one.subsystem for one in found.requires] == ["arch", "io"]


def test_a_workflow_with_groups_asks_for_its_resources_and_reports_the_rest():
    request = parse(
        """
        version: 1
        resources:
          whole: {type: node, count: 8, schedule: true, with: [{type: gpu, count: 16}, {type: core, count: 32}]}
          part: {type: node, count: 2, with: [{type: gpu, count: 2}]}
        groups:
        - name: outer
          resources: whole
          tasks:
          - {local: true, command: [start-queue]}
          - {group: train}
          - {name: test, replicas: 20, resources: part, depends_on: [train], command: [bash, -c, test]}
        - name: train
          resources: part|whole
          tasks: [{command: [train]}]
        tasks:
        - {group: outer}
        """
    )
    (group,) = request.groups
    assert (group.name, [inner.count.min for inner in group.levels[0].inside]) == ("whole", [2, 4])
    assert request.tasks == ()
    assert [sentence.split(":")[0] for sentence in request.ignored] == ["resources.part", "tasks[0].group", "groups"]
