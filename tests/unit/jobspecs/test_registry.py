"""The table of dialects: recognised, named, extended, and honest about what failed to load."""

import pytest

from rainbow_sched.jobspecs.registry import DIALECTS, Dialect, detect_dialect, dialects, parse
from rainbow_sched.model.errors import Invalid, TooLarge
from rainbow_sched.model.request import Group, Level, Request

NEXTGEN = "resources: {a: {type: node}}"


@pytest.mark.parametrize(
    ("data", "name"),
    [
        ({"resources": {}}, "nextgen"),
        ({"resorces": {}}, "nextgen"),
        ({"resources": [], "tasks": []}, "flux"),
        ({"resources": [], "task": {}}, "legacy"),
        ({"resources": [], "tasks": [{"resources": {}}]}, "legacy"),
        ({"rainbow": 1}, "canonical"),
    ],
)
def test_each_dialect_is_recognised_by_its_shape(data, name):
    assert detect_dialect(data) == name


@pytest.mark.parametrize("text", ["", "3", "hello", "[]", "- a", "null", '"x"'])
def test_what_is_no_jobspec_at_all_is_refused(text):
    with pytest.raises(Invalid, match="neither a jobspec, which is a map"):
        parse(text)


def test_a_dialect_can_be_named():
    assert parse(NEXTGEN, dialect="nextgen").groups
    with pytest.raises(Invalid, match="expected a list"):
        parse(f"version: 1\n{NEXTGEN}", dialect="flux")
    assert parse("hostname\n", dialect="script").tasks[0].script == "hostname\n"


def test_an_unknown_dialect_answers_with_the_nearest():
    with pytest.raises(Invalid, match="did you mean 'nextgen'"):
        parse(NEXTGEN, dialect="nextgn")


def test_the_size_is_limited():
    padded = NEXTGEN + "\n#" + "x" * 70_000
    with pytest.raises(TooLarge):
        parse(padded)
    with pytest.raises(TooLarge):
        parse("#!/bin/sh\n" + "x" * 70_000)


ONE = Request(groups=(Group(levels=(Level(type="core"),)),))
TINY = Dialect(name="?", about="always one core", from_data=lambda data: ONE)
NOT_A_DIALECT = 5


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A package on the path that offers three dialects, two of them broken."""
    here = tmp_path / "offers-1.0.dist-info"
    here.mkdir()
    (here / "METADATA").write_text("Metadata-Version: 2.1\nName: offers\nVersion: 1.0\n")
    (here / "entry_points.txt").write_text(
        f"[rainbow.dialects]\ntiny = {__name__}:TINY\nwrong = {__name__}:NOT_A_DIALECT\n"
        "gone = no_such_module:X\nnextgen = no_such_module:X\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.usefixtures("installed")
def test_installed_packages_add_dialects_and_broken_ones_are_listed_with_their_error():
    found = dialects()
    assert (found["tiny"].origin, found["tiny"].error) == ("offers", "")
    assert parse("x", dialect="tiny") == ONE
    assert "no_such_module" in found["gone"].error
    assert "not a Dialect" in found["wrong"].error
    with pytest.raises(Invalid, match="no_such_module"):
        parse("x", dialect="gone")


@pytest.mark.usefixtures("installed")
def test_a_package_cannot_take_over_a_built_in_name():
    assert dialects()["nextgen"] is DIALECTS["nextgen"]
