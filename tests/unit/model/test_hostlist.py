"""Names of nodes in short and at length."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rainbow_sched.model.errors import Invalid, TooLarge
from rainbow_sched.model.hostlist import collapse, expand, parse_idset


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n[1-3,7],g1", ["n1", "n2", "n3", "n7", "g1"]),
        ("n[08-10]", ["n08", "n09", "n10"]),
        ("r[1-2]n[1-2]x", ["r1n1x", "r1n2x", "r2n1x", "r2n2x"]),
        ("login", ["login"]),
        ("", []),
    ],
)
def test_a_list_names_its_nodes_in_order(text, names):
    assert expand(text) == names


@pytest.mark.parametrize("text", ["n[a-b]", "n[1-]", "n[3-1]", "n[1", "n]1", "n[[1]]"])
def test_what_is_no_list_is_refused(text):
    with pytest.raises(Invalid):
        expand(text)


def test_a_list_of_too_many_is_refused_before_it_is_made():
    with pytest.raises(TooLarge):
        expand("n[0-99999999999]")


def test_an_idset_is_numbers():
    assert (parse_idset("0-3,7"), parse_idset(4), parse_idset("[1-2]")) == ([0, 1, 2, 3, 7], [4], [1, 2])


_names = st.lists(st.from_regex(r"[a-z]{1,3}(0|[1-9][0-9]{0,3}|0[0-9]{1,2})?", fullmatch=True), max_size=30)


@settings(max_examples=200)
@given(_names)
def test_what_is_shortened_expands_to_the_same_names(names):
    assert expand(collapse(names)) == names
