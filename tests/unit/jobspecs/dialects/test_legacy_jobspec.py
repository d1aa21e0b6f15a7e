"""The prototype's older form."""

import pytest

from rainbow_sched.jobspecs.registry import parse
from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.request import Count, Equals, Level, Requirement, Task, Within

OLDER = """
version: 1
resources:
- type: node
  count: 2
  with:
  - type: slot
    label: default
    count: 1
    with:
    - {type: core, count: 2}
task:
  command: [ior]
  slot: default
  count: {per_slot: 1}
  resources:
    io:
      match:
      - {field: type, value: shm}
    spack:
      range:
      - {field: version, min: 0.5.1, max: 0.5.5}
"""


def test_requirements_beside_the_task_hold_at_the_nodes():
    request = parse(OLDER)
    requires = (
        Requirement("io", (Equals("type", "shm"),)),
        Requirement("spack", (Within("version", "0.5.1", "0.5.5"),)),
    )
    cores = Level(type="core", count=Count(2), label="default")
    assert request.groups[0].levels == (Level(type="node", count=Count(2), requires=requires, inside=(cores,)),)
    assert request.tasks == (Task(command=("ior",), group="default", total=2),)


def test_the_still_older_short_match_is_read():
    request = parse(OLDER.replace("{field: type, value: shm}", "type: shm"))
    assert request.groups[0].levels[0].requires[0] == Requirement("io", (Equals("type", "shm"),))


def test_scripts_and_other_rules_are_kept_or_reported():
    text = OLDER.replace("command: [ior]", "scripts: [{name: a, content: '#!/bin/sh'}, {name: b, content: x}]")
    request = parse(text.replace("match:", "storage:"))
    assert request.tasks[0].script == "#!/bin/sh"
    assert [sentence.split(":")[0] for sentence in request.ignored] == ["task.resources.io.storage", "task.scripts[1]"]


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ("{field: type, value: shm}", "{field: type}", "task.resources.io.match[0]"),
        ("{field: type, value: shm}", "{}", "task.resources.io.match[0]"),
        ("min: 0.5.1, max: 0.5.5", "mim: 1", "task.resources.spack.range[0].mim"),
        ("min: 0.5.1, max: 0.5.5", "", "task.resources.spack.range[0]"),
        ("slot: default", "slot: other", "task.slot"),
        ("command: [ior]", "name: x", "task"),
    ],
)
def test_what_is_not_understood_is_refused_where_it_stands(old, new, where):
    with pytest.raises(Invalid) as error:
        parse(OLDER.replace(old, new))
    assert error.value.where.startswith(where)
