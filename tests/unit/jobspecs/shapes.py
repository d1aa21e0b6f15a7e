"""Generated jobspecs and requests for the tests of this folder."""

from dataclasses import replace

from hypothesis import strategies as st

from rainbow_sched.model.request import Count, Equals, Group, Level, Request, Requirement, Runs, Task, Within

names = st.sampled_from(["alpha", "beta", "gamma-1", "delta_2"])
words = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8)
bounds = (
    st.builds("{}{}{}".format, st.sampled_from(["", "v"]), st.integers(0, 99), words)
    | st.integers(-(2**40), 2**40)
    | st.floats(-1e9, 1e9)
)
values = words | st.integers(-(2**40), 2**40) | st.booleans() | st.floats(-1e9, 1e9)
small = st.integers(1, 9)


@st.composite
def count_values(draw):
    """A count as a jobspec writes it: a number or a range."""
    least = draw(small)
    return draw(
        st.sampled_from([least, {"min": least}, {"min": least, "max": least + draw(st.integers(0, 5))}])
        if draw(st.booleans())
        else st.just(least)
    )


terms = st.one_of(
    st.builds(lambda f, v: {"field": f, "match": v}, words, values),
    st.builds(lambda f, v: {"field": f, "min": v}, words, bounds),
    st.builds(lambda f, a, b: {"field": f, "min": a, "max": b}, words, bounds, bounds),
    st.builds(lambda f, v: {"field": f, "runs": v}, words, words),
)
entries = st.one_of(
    st.builds(lambda n, t: {"name": n, **t}, names, terms),
    st.builds(lambda n, ts: {"name": n, "all": ts}, names, st.lists(terms, min_size=1, max_size=3)),
)


@st.composite
def nextgen_below(draw, depth=2):
    """A resource below a slot."""
    data = {"type": draw(st.sampled_from(["node", "socket", "core", "gpu", "memory"])), "count": draw(count_values())}
    return _dressed(draw, data, depth, nextgen_below)


def _dressed(draw, data, depth, below):
    if draw(st.booleans()):
        data["requires"] = draw(st.lists(entries, max_size=2))
    if draw(st.booleans()):
        data["exclusive"] = draw(st.booleans())
    if draw(st.booleans()):
        data["label"] = draw(names)
    if draw(st.booleans()):
        data["unit"] = "GB"
    if depth and draw(st.booleans()):
        data["with"] = draw(st.lists(below(depth=depth - 1), min_size=1, max_size=2))
    return data


@st.composite
def nextgen_resources(draw):
    """A top-level resource: a slot, a slot below something, or none."""
    shape = draw(st.sampled_from(["slot", "below", "none"]))
    if shape == "none":
        return draw(nextgen_below())
    slot = _dressed(draw, {"type": draw(names), "replicas": draw(count_values())}, 2, nextgen_below)
    if shape == "slot":
        return slot
    return {"type": "rack", "count": draw(count_values()), "with": [slot, *draw(st.lists(nextgen_below(), max_size=1))]}


@st.composite
def nextgen_documents(draw):
    """A whole nextgen jobspec."""
    data = {"version": 1, "resources": draw(st.dictionaries(names, nextgen_resources(), min_size=1, max_size=3))}
    if draw(st.booleans()):
        data["tasks"] = [
            {"command": [draw(words), "x y"], "resources": next(iter(data["resources"])), "replicas": draw(small)}
        ]
    if draw(st.booleans()):
        data["requires"] = draw(st.lists(entries, max_size=2))
    if draw(st.booleans()):
        data["name"] = draw(words)
    if draw(st.booleans()):
        data["attributes"] = {
            "duration": draw(st.floats(1, 1e6)),
            "environment": draw(st.dictionaries(names, words, max_size=2)),
            "parameter": draw(st.dictionaries(names, values, max_size=2)),
        }
    return data


@st.composite
def flux_documents(draw):
    """A Flux V1 jobspec of each of the four shapes that RFC 25 allows."""
    inside = [{"type": "core", "count": draw(small)}]
    if draw(st.booleans()):
        inside.append({"type": "gpu", "count": draw(small)})
    resource = {"type": "slot", "count": draw(small), "label": "task", "with": inside}
    nodes, slots = 1, resource["count"]
    if draw(st.booleans()):
        nodes = draw(small)
        resource = {"type": "node", "count": nodes, "with": [resource]}
        if draw(st.booleans()):
            resource["exclusive"] = draw(st.booleans())
    system = {"duration": draw(st.sampled_from([0, 60, 3600.5]))}
    if draw(st.booleans()):
        system["cwd"] = "/home/user"
        system["environment"] = draw(st.dictionaries(names, words, max_size=2))
    if draw(st.booleans()):
        system["constraints"] = {"and": [{"properties": ["ssd", "^slow"]}, {"not": [{"hostlist": ["n[1-3]"]}]}]}
    total = draw(st.integers(nodes, nodes * slots))  # RFC 25: at least one on each node, at most one in each slot
    count = draw(st.sampled_from([{"per_slot": 1}, {"total": total}]))
    return {
        "version": 1,
        "resources": [resource],
        "tasks": [{"command": [draw(words)], "slot": "task", "count": count}],
        "attributes": {"system": system},
    }


counts = st.builds(lambda a, b: Count(a, None if b is None else a + b), small, st.none() | st.integers(0, 4))
model_terms = st.one_of(
    st.builds(Equals, words, values),
    st.builds(lambda f, v: Within(f, min=v), words, bounds),
    st.builds(lambda f, v: Within(f, max=v), words, bounds),
    st.builds(Runs, words, words),
)
requirements = st.recursive(
    st.builds(Requirement, names, st.lists(model_terms, min_size=1, max_size=2).map(tuple)),
    lambda inner: st.builds(
        Requirement,
        names,
        st.lists(model_terms, max_size=2).map(tuple),
        st.lists(inner, min_size=1, max_size=2).map(tuple),
    ),
    max_leaves=3,
)
leaves = st.builds(
    Level,
    type=st.sampled_from(["core", "gpu", "memory", "node"]),
    count=counts,
    unit=st.sampled_from(["", "GB"]),
    exclusive=st.booleans(),
    requires=st.lists(requirements, max_size=1).map(tuple),
    label=st.sampled_from(["", "a"]),
)
levels = st.recursive(
    leaves,
    lambda inner: st.builds(
        lambda level, inside, shared, abstract: replace(level, inside=inside, shared=shared, abstract=abstract),
        leaves,
        st.lists(inner, min_size=1, max_size=2).map(tuple),
        st.booleans(),
        st.booleans(),
    ),
    max_leaves=5,
)
requests = st.builds(
    Request,
    groups=st.lists(
        st.builds(
            Group, levels=st.lists(levels, min_size=1, max_size=2).map(tuple), name=st.sampled_from(["", "a", "b"])
        ),
        min_size=1,
        max_size=2,
    ).map(tuple),
    tasks=st.lists(
        st.builds(
            Task, command=st.lists(words, min_size=1, max_size=3).map(tuple), per_slot=small, total=st.none() | small
        )
        | st.builds(Task, script=words, group=names),
        max_size=2,
    ).map(tuple),
    requires=st.lists(requirements, max_size=2).map(tuple),
    hosts=st.lists(words, max_size=2).map(tuple),
    not_hosts=st.lists(words, max_size=2).map(tuple),
    properties=st.lists(words, max_size=2).map(tuple),
    duration=st.none() | st.floats(0.001, 1e8),
    name=st.just("") | words,
    environment=st.dictionaries(words, st.just("") | words, max_size=2),
    cwd=st.just("") | words,
    image=st.just("") | words,
    parameters=st.dictionaries(words, values, max_size=2),
    options=st.dictionaries(words, words, max_size=2),
    ignored=st.lists(words, max_size=2).map(tuple),
)
