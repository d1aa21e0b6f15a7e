"""Backends are chosen by name from a visible table."""

from __future__ import annotations

import pytest

from rainbow_sched.graphs import backend
from rainbow_sched.model.errors import NotFound, Unsupported


def test_every_name_of_the_table_is_listed():
    assert set(backend.BACKENDS) <= set(backend.names())


def test_an_unknown_name_is_answered_with_the_closest_one():
    with pytest.raises(NotFound, match="did you mean 'memory'"):
        backend.open_backend("memroy")
    with pytest.raises(NotFound, match="there are cypher, memory"):
        backend.open_backend("xyz")


def test_a_backend_that_does_not_load_says_why(monkeypatch):
    monkeypatch.setattr(backend, "BACKENDS", {"broken": "rainbow_sched.graphs.nowhere:Backend"})
    with pytest.raises(Unsupported, match=r"nowhere"):
        backend.open_backend("broken")


def test_each_opening_is_a_backend_of_its_own():
    assert backend.open_backend("memory") is not backend.open_backend("memory")
