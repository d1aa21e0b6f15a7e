-- The history of the database, so that an older copy of it is recognised; see model/generation.py.

CREATE TABLE generations (
    number BIGINT PRIMARY KEY,
    id TEXT NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    cause TEXT NOT NULL,
    after_event BIGINT NOT NULL,
    old_jobs BIGINT NOT NULL
);

-- After a restore: the clusters that may know more than the database, and whether they have said what.
CREATE TABLE unreported_clusters (
    cluster_id BIGINT PRIMARY KEY REFERENCES clusters (id),
    generation BIGINT NOT NULL,
    state TEXT NOT NULL,
    why TEXT NOT NULL
);

-- What a restored server learned from its clusters, for the operator.
CREATE TABLE restore_findings (
    seq INTEGER PRIMARY KEY,
    generation BIGINT NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    kind TEXT NOT NULL,
    job BIGINT NOT NULL,
    n BIGINT NOT NULL,
    cluster TEXT NOT NULL,
    detail TEXT NOT NULL
);
