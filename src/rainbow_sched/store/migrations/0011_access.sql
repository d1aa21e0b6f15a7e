-- Rights, rotation, renewal and unsettled jobs had been values of `meta`.

ALTER TABLE users ADD COLUMN rights TEXT NOT NULL DEFAULT '[]'; -- JSON

UPDATE users SET rights = (SELECT m.value FROM meta m WHERE m.key = 'rights.user.' || users.name)
WHERE EXISTS (SELECT 1 FROM meta m WHERE m.key = 'rights.user.' || users.name);

ALTER TABLE cluster_groups ADD COLUMN rights TEXT NOT NULL DEFAULT '[]'; -- JSON

UPDATE cluster_groups SET rights = (SELECT m.value FROM meta m WHERE m.key = 'rights.group.' || cluster_groups.name)
WHERE EXISTS (SELECT 1 FROM meta m WHERE m.key = 'rights.group.' || cluster_groups.name);

ALTER TABLE credentials ADD COLUMN ends_at DOUBLE PRECISION; -- set when a rotation replaced it
ALTER TABLE credentials ADD COLUMN replaces TEXT NOT NULL DEFAULT ''; -- id of the secret that an agent renewed
ALTER TABLE credentials ADD COLUMN renewal_asked BIGINT NOT NULL DEFAULT 0;

UPDATE credentials SET
    ends_at = (SELECT CAST(m.value AS DOUBLE PRECISION) FROM meta m WHERE m.key = 'ends.' || credentials.id),
    replaces = coalesce((SELECT m.value FROM meta m WHERE m.key = 'predecessor.' || credentials.id), '');

UPDATE credentials SET renewal_asked = 1
WHERE kind = 'agt' AND created_at <
    (SELECT CAST(m.value AS DOUBLE PRECISION) FROM meta m WHERE m.key = 'renew.' || credentials.owner);

-- Jobs that started or ended, and whose dependents above `after_job` are still to be released or ended.
CREATE TABLE unsettled_jobs (
    job BIGINT NOT NULL,
    after_job BIGINT NOT NULL,
    PRIMARY KEY (job, after_job)
) WITHOUT ROWID;

-- To settle a dependent again changes nothing, so all that may be meant are taken instead of reading the JSON.
INSERT INTO unsettled_jobs (job, after_job)
SELECT DISTINCT on_job.id, 0 FROM jobs waiter
JOIN dependencies d ON d.job = waiter.id JOIN jobs on_job ON on_job.id = d.waits_for
WHERE waiter.state = 'held' AND waiter.hold = 'dependency'
    AND (on_job.started_at IS NOT NULL OR on_job.ended_at IS NOT NULL)
    AND EXISTS (SELECT 1 FROM meta m WHERE m.key = 'dependents.unsettled' AND m.value <> '');

DELETE FROM meta WHERE key LIKE 'rights.%' OR key LIKE 'ends.%' OR key LIKE 'predecessor.%' OR key LIKE 'successor.%'
    OR key LIKE 'renew.%' OR key IN ('dependents.unsettled', 'registration.digest');
