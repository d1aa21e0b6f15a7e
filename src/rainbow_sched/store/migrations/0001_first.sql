-- The first schema. Written for SQLite; `schema.py` turns three words into PostgreSQL's.

CREATE TABLE counters (name TEXT PRIMARY KEY, value BIGINT NOT NULL);

CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);

CREATE TABLE clusters (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    standing TEXT NOT NULL,
    manager TEXT NOT NULL,
    registered_at DOUBLE PRECISION NOT NULL,
    seen_at DOUBLE PRECISION,
    state TEXT NOT NULL,
    state_at DOUBLE PRECISION,
    marks TEXT NOT NULL,
    used TEXT NOT NULL,
    rules TEXT NOT NULL,
    record TEXT NOT NULL,
    drain_reason TEXT NOT NULL,
    version BIGINT NOT NULL,
    removed_at DOUBLE PRECISION
);

CREATE UNIQUE INDEX clusters_live_name ON clusters (name) WHERE removed_at IS NULL;

CREATE TABLE graphs (
    cluster BIGINT NOT NULL REFERENCES clusters (id),
    subsystem TEXT NOT NULL,
    digest BLOB NOT NULL,
    data BLOB NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (cluster, subsystem)
);

-- Requests and decisions are kept once however many jobs share them.
CREATE TABLE texts (id INTEGER PRIMARY KEY, digest BLOB NOT NULL UNIQUE, body BLOB NOT NULL);

CREATE TABLE jobs (
    id INTEGER PRIMARY KEY,
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    state TEXT NOT NULL,
    hold TEXT,
    spec BIGINT NOT NULL REFERENCES texts (id),
    spec_check BIGINT NOT NULL, -- first bytes of the digest: a changed reference is noticed too
    source BIGINT REFERENCES texts (id),
    terms TEXT NOT NULL,
    start_after DOUBLE PRECISION,
    deadline DOUBLE PRECISION,
    cluster TEXT NOT NULL,
    attempt BIGINT NOT NULL,
    failures BIGINT NOT NULL,
    evaluations BIGINT NOT NULL,
    evaluated_at DOUBLE PRECISION,
    exit_code BIGINT,
    reason TEXT NOT NULL,
    client_token TEXT,
    submitted_at DOUBLE PRECISION NOT NULL,
    started_at DOUBLE PRECISION,
    ended_at DOUBLE PRECISION,
    version BIGINT NOT NULL
);

-- Each list is a range of one of these, read backwards from the newest id.
CREATE INDEX jobs_state ON jobs (state, id);
CREATE INDEX jobs_owner ON jobs (owner, state, id);
CREATE INDEX jobs_cluster ON jobs (cluster, state, id);
CREATE INDEX jobs_name ON jobs (name, state, id);
CREATE UNIQUE INDEX jobs_client_token ON jobs (owner, client_token) WHERE client_token IS NOT NULL;
CREATE INDEX jobs_hold ON jobs (hold, id) WHERE state = 'held';
CREATE INDEX jobs_start_after ON jobs (start_after) WHERE state = 'held' AND hold = 'time';
CREATE INDEX jobs_deadline ON jobs (deadline) WHERE deadline IS NOT NULL AND ended_at IS NULL;

CREATE TABLE labels (
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    job BIGINT NOT NULL REFERENCES jobs (id),
    PRIMARY KEY (key, value, job)
) WITHOUT ROWID;

CREATE INDEX labels_job ON labels (job);

CREATE TABLE dependencies (
    job BIGINT NOT NULL REFERENCES jobs (id),
    kind TEXT NOT NULL,
    waits_for BIGINT NOT NULL REFERENCES jobs (id),
    PRIMARY KEY (job, waits_for, kind)
) WITHOUT ROWID;

CREATE INDEX dependencies_waits_for ON dependencies (waits_for, job);

CREATE TABLE attempts (
    job BIGINT NOT NULL REFERENCES jobs (id),
    n BIGINT NOT NULL,
    cluster_id BIGINT NOT NULL REFERENCES clusters (id), -- a name that comes back is another cluster
    cluster TEXT NOT NULL,
    token TEXT NOT NULL,
    state TEXT NOT NULL,
    live BIGINT NOT NULL,
    priority BIGINT NOT NULL,
    created_at DOUBLE PRECISION NOT NULL,
    lease_until DOUBLE PRECISION,
    accepted_at DOUBLE PRECISION,
    started_at DOUBLE PRECISION,
    ended_at DOUBLE PRECISION,
    exit_code BIGINT,
    failure TEXT,
    reason TEXT NOT NULL,
    native_id TEXT NOT NULL,
    suspect BIGINT NOT NULL,
    holder TEXT NOT NULL,
    PRIMARY KEY (job, n)
) WITHOUT ROWID;

-- The order of this index is the order in which offers are leased.
CREATE INDEX attempts_queue ON attempts (cluster_id, state, priority DESC, job) WHERE live = 1;
CREATE INDEX attempts_lease ON attempts (lease_until) WHERE state = 'leased';

CREATE TABLE events (
    seq INTEGER PRIMARY KEY,
    job BIGINT NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    kind TEXT NOT NULL,
    state TEXT NOT NULL,
    attempt BIGINT NOT NULL,
    detail TEXT NOT NULL
);

CREATE INDEX events_job ON events (job, seq);

CREATE TABLE decisions (
    job BIGINT NOT NULL,
    n BIGINT NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    record BIGINT NOT NULL,
    PRIMARY KEY (job, n)
) WITHOUT ROWID;

CREATE TABLE commands (
    id INTEGER PRIMARY KEY,
    job BIGINT NOT NULL,
    n BIGINT NOT NULL,
    cluster_id BIGINT NOT NULL,
    kind TEXT NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    acknowledged BIGINT NOT NULL
);

CREATE INDEX commands_open ON commands (cluster_id, id) WHERE acknowledged = 0;
CREATE INDEX commands_attempt ON commands (job, n) WHERE acknowledged = 0;

CREATE TABLE output (
    job BIGINT NOT NULL,
    n BIGINT NOT NULL,
    stream TEXT NOT NULL,
    start BIGINT NOT NULL,
    length BIGINT NOT NULL,
    data BLOB NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (job, n, stream, start)
);

CREATE TABLE syncs (
    cluster_id INTEGER PRIMARY KEY,
    epoch TEXT NOT NULL,
    seq BIGINT NOT NULL,
    answer BLOB NOT NULL
);

CREATE TABLE credentials (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    digest BLOB NOT NULL,
    owner TEXT NOT NULL,
    scopes TEXT NOT NULL,
    created_at DOUBLE PRECISION NOT NULL,
    expires_at DOUBLE PRECISION,
    revoked_at DOUBLE PRECISION,
    used_at DOUBLE PRECISION,
    uses_left BIGINT,
    note TEXT NOT NULL
);

CREATE INDEX credentials_owner ON credentials (owner);

CREATE TABLE users (
    name TEXT PRIMARY KEY,
    groups TEXT NOT NULL,
    disabled BIGINT NOT NULL,
    created_at DOUBLE PRECISION NOT NULL
);

CREATE TABLE cluster_groups (name TEXT PRIMARY KEY, clusters TEXT NOT NULL);

CREATE TABLE audit (
    seq INTEGER PRIMARY KEY,
    at DOUBLE PRECISION NOT NULL,
    actor TEXT NOT NULL,
    credential TEXT NOT NULL,
    address TEXT NOT NULL,
    verb TEXT NOT NULL,
    object TEXT NOT NULL,
    outcome TEXT NOT NULL,
    detail TEXT NOT NULL,
    digest BLOB NOT NULL
);
