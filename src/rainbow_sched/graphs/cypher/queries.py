"""The queries of the cypher backend, in the subset of Cypher that ladybug, Neo4j and Memgraph share.

A vertex stores its depth-first position: everything inside it has `lo` between its own
`lo` and `hi`, so that "inside" is a comparison at any depth. `kinds` and `above`
list the types below and above it, to select only what a request can use.
"""

from __future__ import annotations

TABLES = (
    "CREATE NODE TABLE IF NOT EXISTS Cluster(name STRING, version INT64, PRIMARY KEY(name))",
    "CREATE NODE TABLE IF NOT EXISTS Vertex(key STRING, cluster STRING, id STRING, pos INT64, parent INT64, lo INT64, "
    "hi INT64, name STRING, type STRING, size INT64, unit STRING, metadata STRING, kinds STRING, above STRING, "
    "mark STRING, used INT64, PRIMARY KEY(key))",
    "CREATE NODE TABLE IF NOT EXISTS Fact(key STRING, cluster STRING, subsystem STRING, id STRING, pos INT64, "
    "parent INT64, lo INT64, hi INT64, name STRING, type STRING, size INT64, unit STRING, metadata STRING, "
    "PRIMARY KEY(key))",
    "CREATE NODE TABLE IF NOT EXISTS Field(key STRING, name STRING, one STRING, two STRING, numeric BOOL, plain BOOL, "
    "number DOUBLE, version STRING, PRIMARY KEY(key))",
    "CREATE NODE TABLE IF NOT EXISTS Job(key STRING, cluster STRING, job STRING, PRIMARY KEY(key))",
    "CREATE REL TABLE IF NOT EXISTS CONTAINS(FROM Vertex TO Vertex)",
    "CREATE REL TABLE IF NOT EXISTS HANGS(FROM Vertex TO Fact, place INT64)",
    "CREATE REL TABLE IF NOT EXISTS HAS(FROM Fact TO Field)",
    "CREATE REL TABLE IF NOT EXISTS TAKES(FROM Job TO Vertex, units INT64)",
)

# Neo4j's way to write an index, then Memgraph's.
INDEXES = tuple(
    (f"CREATE INDEX IF NOT EXISTS FOR (n:{label}) ON (n.{key})", f"CREATE INDEX ON :{label}({key})")
    for label, key in (
        ("Cluster", "name"),
        ("Vertex", "key"),
        ("Vertex", "cluster"),
        ("Fact", "key"),
        ("Fact", "cluster"),
        ("Field", "key"),
        ("Job", "key"),
    )
)

CLUSTERS = "MATCH (c:Cluster) RETURN c.name, c.version ORDER BY c.name"
TOUCH = "MERGE (c:Cluster {name: $cluster}) SET c.version = $version"
FORGET_CLUSTER = "MATCH (c:Cluster {name: $cluster}) DELETE c"
FORGET_VERTICES = "MATCH (v:Vertex) WHERE v.cluster = $cluster DETACH DELETE v"
FORGET_FACTS = "MATCH (f:Fact) WHERE f.cluster = $cluster DETACH DELETE f"
FORGET_JOBS = "MATCH (j:Job) WHERE j.cluster = $cluster DETACH DELETE j"
FORGET_SUBSYSTEM = "MATCH (f:Fact) WHERE f.cluster = $cluster AND f.subsystem = $subsystem DETACH DELETE f"
FORGET_JOB = "MATCH (j:Job {key: $key}) DETACH DELETE j"

_ROW = (  # columns that vertices and facts share
    "key: r.key, cluster: r.cluster, id: r.id, pos: r.pos, parent: r.parent, lo: r.lo, hi: r.hi, name: r.name, "
    "type: r.type, size: r.size, unit: r.unit, metadata: r.metadata"
)
ADD_VERTICES = f"UNWIND $rows AS r CREATE (:Vertex {{{_ROW}, kinds: r.kinds, above: r.above, mark: '', used: 0}})"
ADD_CONTAINS = "UNWIND $rows AS r MATCH (a:Vertex {key: r.a}), (b:Vertex {key: r.b}) CREATE (a)-[:CONTAINS]->(b)"
ADD_FACTS = f"UNWIND $rows AS r CREATE (:Fact {{{_ROW}, subsystem: r.subsystem}})"
ADD_HANGS = (
    "UNWIND $rows AS r MATCH (a:Vertex {key: r.a}), (b:Fact {key: r.b}) CREATE (a)-[:HANGS {place: r.place}]->(b)"
)
ADD_FIELDS = (
    "UNWIND $rows AS r MERGE (x:Field {key: r.key}) SET x.name = r.name, x.one = r.one, x.two = r.two, "
    "x.numeric = r.numeric, x.plain = r.plain, x.number = r.number, x.version = r.version"
)
ADD_HAS = "UNWIND $rows AS r MATCH (a:Fact {key: r.a}), (b:Field {key: r.b}) CREATE (a)-[:HAS]->(b)"
ADD_JOB = "CREATE (:Job {key: $key, cluster: $cluster, job: $job})"
ADD_TAKES = (
    "UNWIND $rows AS r MATCH (a:Job {key: r.a}), (b:Vertex {key: r.b}) CREATE (a)-[:TAKES {units: r.units}]->(b)"
)

KNOWN = "UNWIND $keys AS key MATCH (v:Vertex {key: key}) RETURN v.id, v.lo, v.hi, v.size"
MARK = "UNWIND $rows AS r MATCH (v:Vertex {key: r.key}) SET v.mark = r.mark"
UNUSE = "MATCH (v:Vertex) WHERE v.cluster = $cluster AND v.used > 0 SET v.used = 0"
USE_UNITS = "UNWIND $rows AS r MATCH (v:Vertex {key: r.key}) SET v.used = r.units"
USE_WHOLE = "MATCH (v:Vertex) WHERE v.cluster = $cluster AND v.lo >= $lo AND v.lo < $hi SET v.used = v.size"

# From here on queries ask for several clusters at once: one query for fifty costs little more than one for one.
_COLUMNS = "v.cluster, v.pos, v.parent, v.id, v.name, v.type, v.size, v.unit, v.metadata, v.mark, v.used"
_OF_FACT = "f.cluster IN $clusters AND f.subsystem = $subsystem"
WHOLE = f"MATCH (v:Vertex) WHERE v.cluster IN $clusters RETURN {_COLUMNS} ORDER BY v.cluster, v.pos"
TAKEN = (
    "MATCH (j:Job)-[t:TAKES]->(v:Vertex) WHERE j.cluster IN $clusters RETURN j.cluster, j.job, v.pos, t.units "
    "ORDER BY j.cluster, j.job, v.pos"
)
JOBS = "MATCH (j:Job) WHERE j.cluster IN $clusters RETURN j.cluster, j.job ORDER BY j.cluster, j.job"
# What is marked, used or taken: it tells whether a vertex above is free as a whole.
TOUCHED = (
    "MATCH (v:Vertex) WHERE v.cluster IN $clusters AND (v.mark <> '' OR v.used > 0) RETURN v.cluster, v.lo "
    "UNION MATCH (j:Job)-[:TAKES]->(v:Vertex) WHERE j.cluster IN $clusters RETURN v.cluster, v.lo"
)
AROUND = (
    "UNWIND $touched AS at MATCH (v:Vertex) WHERE v.cluster = at.cluster AND v.lo <= at.lo AND at.lo < v.hi "
    f"RETURN DISTINCT {_COLUMNS}"
)
FACTS = (
    "MATCH (f:Fact) WHERE f.cluster IN $clusters RETURN f.subsystem, f.pos, f.parent, f.id, f.name, f.type, f.size, "
    "f.unit, f.metadata ORDER BY f.subsystem, f.pos"
)
HANGING = (
    "MATCH (v:Vertex)-[h:HANGS]->(f:Fact) WHERE f.cluster IN $clusters RETURN f.subsystem, f.pos, v.id "
    "ORDER BY f.subsystem, f.pos, h.place"
)
# Where a requirement is met: at the vertex that a meeting fact, or one above it in its subsystem, hangs on.
ANCHORS = (
    "UNWIND $facts AS at MATCH (v:Vertex)-[:HANGS]->(top:Fact) WHERE top.cluster = at.cluster "
    "AND top.subsystem = $subsystem AND top.lo <= at.lo AND at.lo < top.hi RETURN DISTINCT v.cluster, v.lo, v.hi"
)
SPOKEN_FOR = (
    "UNWIND $spans AS s MATCH (v:Vertex) WHERE v.cluster = s.cluster AND v.lo >= s.lo AND v.lo < s.hi "
    "RETURN DISTINCT v.cluster, v.id ORDER BY v.cluster, v.id"
)
ABOVE_FACTS = (
    "UNWIND $inner AS at MATCH (f:Fact) WHERE f.cluster = at.cluster AND f.subsystem = $subsystem "
    "AND f.lo < at.lo AND at.lo < f.hi RETURN DISTINCT f.cluster, f.lo"
)
PLAIN_VALUES = (
    f"MATCH (f:Fact)-[:HAS]->(x:Field) WHERE {_OF_FACT} AND x.name = $field AND x.plain RETURN DISTINCT x.one"
)
ALL_FACTS = f"MATCH (f:Fact) WHERE {_OF_FACT} RETURN f.cluster, f.lo"


def selected(types: int, leaves: int) -> str:
    """Return the query for the vertices that a request can use: of its types, above them, and inside whole ones."""
    wanted = ["v.pos = 0", "v.type IN $types"]
    wanted += [f"v.kinds CONTAINS $type{k}" for k in range(types)]
    wanted += [f"v.above CONTAINS $leaf{k}" for k in range(leaves)]
    return f"MATCH (v:Vertex) WHERE v.cluster IN $clusters AND ({' OR '.join(wanted)}) RETURN {_COLUMNS}"


def meeting(conditions: list[str]) -> str:
    """Return the query for the facts of a subsystem that meet each condition on a field `x<k>`."""
    joins = "".join(f" MATCH (f)-[:HAS]->(x{k}:Field) WHERE {text}" for k, text in enumerate(conditions))
    return f"MATCH (f:Fact) WHERE {_OF_FACT} WITH f{joins} RETURN DISTINCT f.cluster, f.lo"
