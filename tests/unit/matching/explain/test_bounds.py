"""Explanations end: what is too large to look for changes is said to be, instead of searched for seconds."""

from __future__ import annotations

import json

from rainbow_sched.graphs.memory import MemoryBackend
from rainbow_sched.jobspecs.preparation import prepare
from rainbow_sched.matching.explain import suggestions
from rainbow_sched.model.reasons import ChangesNotSought
from rainbow_sched.model.request import Requirement, Within
from tests.support.graph_builders import a_graph, a_level, a_request, a_subsystem, slots


def explained(request):
    backend = MemoryBackend()
    backend.put("c", a_graph(nodes=3, cores=8, gpus=2))
    [found] = backend.explain(prepare(request))
    return found


def test_a_request_of_a_thousand_leaves_is_explained_without_changes_and_says_so(monkeypatch):
    asked = []
    monkeypatch.setattr(suggestions.Variants, "fits", lambda *arguments: asked.append(arguments))
    found = explained(a_request(slots(4, *(a_level("core", 1) for _ in range(999)))))
    assert found.reasons[-1] == ChangesNotSought(levels=1000)
    assert found.reasons[0] != found.reasons[-1]
    assert not found.changes
    assert not asked
    assert json.loads(json.dumps(found.to_json()))["reasons"][-1]["levels"] == 1000


def test_a_small_request_has_its_changes_looked_for():
    found = explained(a_request(slots(1, a_level("core", 1), a_level("gpu", 4))))
    assert found.changes
    assert not any(isinstance(reason, ChangesNotSought) for reason in found.reasons)


def test_a_word_is_never_proposed_as_a_bound():
    graph = a_graph(nodes=1, cores=2)
    backend = MemoryBackend()
    backend.put("c", graph)
    hung = {"root": {"value": "gcc"}, "node0": {"value": "7.5.0"}}
    backend.put_subsystem("c", a_subsystem(graph, "compiler", hung))
    asked = Requirement("compiler", (Within("value", min="11.4.0"),))
    [found] = backend.explain(prepare(a_request(slots(1, a_level("core", 1), requires=(asked,)))))
    assert [change.text for change in found.changes] == ["compiler value >= 7.5.0 instead of 11.4.0"]
    del hung["node0"]
    backend.put_subsystem("c", a_subsystem(graph, "compiler", hung))
    [found] = backend.explain(prepare(a_request(slots(1, a_level("core", 1), requires=(asked,)))))
    assert [change.text for change in found.changes] == ["drop compiler value >= 11.4.0"]
