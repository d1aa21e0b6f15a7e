-- Runs that are given up when their cluster is silent, and agents that must never speak again.

ALTER TABLE attempts ADD COLUMN guarded BIGINT NOT NULL DEFAULT 0;

CREATE TABLE past_epochs (
    cluster_id BIGINT NOT NULL,
    epoch TEXT NOT NULL,
    PRIMARY KEY (cluster_id, epoch)
) WITHOUT ROWID;
