"""The exact fit agrees with trying everything, on generated graphs and requests."""

from __future__ import annotations

import os
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from rainbow.scheduler.fit import Fitter
from rainbow.scheduler.fold import Fold
from rainbow.scheduler.fold_facts import Facts
from rainbow.scheduler.fold_shapes import Shapes
from rainbow.scheduler.fold_structure import Structure
from tests.support import fleets, oracle

CASES = int(os.environ.get("RAINBOW_CASES", "600"))


@settings(max_examples=CASES, deadline=None, derandomize=CASES < 1000)
@given(st.integers(0, 2**40))
def test_the_whole_graph_fits_exactly_when_trying_everything_finds_a_way(seed):
    rng = Random(seed)
    graph = fleets.random_graph(rng)
    subsystems = [fleets.random_subsystem(rng, graph)] if rng.random() < 0.7 else []
    request = fleets.random_request(rng, graph)
    if request.hosts or request.not_hosts:
        return
    expected = oracle.fits(graph, request, subsystems, now=False)
    facts = Facts()
    shapes = Shapes()
    fold = Fold(Structure(graph, shapes), subsystems, facts, shapes)
    found = Fitter(request, facts).answer(fold, fold.root).fits
    if expected is not None and found is not None:
        assert found == expected
