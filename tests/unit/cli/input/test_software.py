"""The syntax of `--software`."""

import pytest

from rainbow_sched.cli.input.software import requirement
from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.request import Equals, Within


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("lammps", (Equals("name", "lammps"),)),
        ("lammps@2024.1", (Equals("name", "lammps"), Equals("version", "2024.1"))),
        ("lammps@>=2024", (Equals("name", "lammps"), Within("version", min="2024"))),
        ("a@<=3", (Equals("name", "a"), Within("version", max="3"))),
        ("a@1.2:1.4", (Equals("name", "a"), Within("version", min="1.2", max="1.4"))),
        ("a@1.2:", (Equals("name", "a"), Within("version", min="1.2"))),
        ("a +kokkos~mpi", (Equals("name", "a"), Equals("kokkos", True), Equals("mpi", False))),
        ("a arch=zen3", (Equals("name", "a"), Equals("arch", "zen3"))),
    ],
)
def test_software_becomes_terms_on_one_vertex(text, terms):
    assert requirement(text).terms == terms
    assert requirement(text).subsystem == "software"


@pytest.mark.parametrize("text", ["", "@2", "a@", "a@>=", "a b", "+x", "a@:"])
def test_software_that_cannot_be_read_says_how_to_write_it(text):
    with pytest.raises(Invalid):
        requirement(text)


@pytest.mark.parametrize("text", ["a@>=gcc", "a@<=latest", "a@main:", "a@1.2:main", "a@>=V2"])
def test_software_with_a_bound_that_is_no_version_is_refused(text):
    with pytest.raises(Invalid, match="is not a version"):
        requirement(text)
