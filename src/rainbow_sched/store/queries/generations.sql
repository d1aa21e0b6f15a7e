-- name: generations
SELECT number, id, at, cause, after_event, old_jobs FROM generations ORDER BY number;

-- name: add_generation
INSERT INTO generations (number, id, at, cause, after_event, old_jobs)
VALUES (:number, :id, :at, :cause, :after_event, :old_jobs);

-- name: restore_reports
SELECT u.cluster_id, c.name, u.generation, u.state, u.why FROM unreported_clusters u JOIN clusters c ON c.id = u.cluster_id
WHERE c.removed_at IS NULL OR u.state = 'given-up' ORDER BY c.name;

-- name: expect_all_reports
INSERT INTO unreported_clusters (cluster_id, generation, state, why)
SELECT id, :generation, :state, '' FROM clusters WHERE removed_at IS NULL
ON CONFLICT (cluster_id) DO UPDATE SET generation = excluded.generation, state = excluded.state, why = excluded.why;

-- name: update_restore_report
UPDATE unreported_clusters SET state = :state, why = :why WHERE cluster_id = :cluster_id;

-- name: suspend_leases
UPDATE attempts SET lease_until = NULL WHERE state = 'leased';

-- name: resume_leases
UPDATE attempts SET lease_until = :until WHERE cluster_id = :cluster_id AND live = 1 AND state = 'leased' AND lease_until IS NULL;

-- name: add_finding
INSERT INTO restore_findings (seq, generation, at, kind, job, n, cluster, detail)
VALUES (:seq, :generation, :at, :kind, :job, :n, :cluster, :detail);

-- name: findings
SELECT seq, generation, at, kind, job, n, cluster, detail FROM restore_findings
WHERE generation = :generation AND seq > :after ORDER BY seq LIMIT :limit;

-- name: count_findings
SELECT kind, count(*) FROM restore_findings WHERE generation = :generation GROUP BY kind ORDER BY kind;
