-- Decisions in the order in which they were written, with an index beside them: in an index, a record of more than a
-- quarter of a page would take a page of its own. Jobs that no cluster has are not listed by cluster.

CREATE TABLE decided (
    job BIGINT NOT NULL,
    n BIGINT NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    record BIGINT NOT NULL,
    own TEXT NOT NULL,
    PRIMARY KEY (job, n)
);

INSERT INTO decided (job, n, at, record, own) SELECT job, n, at, record, own FROM decisions ORDER BY job, n;

DROP TABLE decisions;

ALTER TABLE decided RENAME TO decisions;

DROP INDEX jobs_cluster;

CREATE INDEX jobs_cluster ON jobs (cluster, state, id) WHERE cluster <> '';
