-- Reruns after unknown outcomes are counted apart from retries after known failures.

ALTER TABLE jobs ADD COLUMN reruns_used BIGINT NOT NULL DEFAULT 0;

UPDATE jobs SET reruns_used = (
    SELECT count(*) FROM attempts a WHERE a.job = jobs.id
        AND (a.state = 'lost' OR (a.state = 'failed' AND a.failure IN ('outcome-unknown', 'node'))))
WHERE failures > 0 AND ended_at IS NULL;

UPDATE jobs SET failures = failures - reruns_used WHERE failures > 0 AND ended_at IS NULL;
