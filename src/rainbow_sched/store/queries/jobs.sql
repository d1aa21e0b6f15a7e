-- name: job_columns
j.id, j.owner, j.name, j.state, j.hold, s.digest AS spec_digest, s.body AS spec_body, j.spec_check,
o.body AS source_body, j.terms, j.cluster, j.attempt, j.failures, j.evaluations, j.evaluated_at, j.exit_code, j.reason, j.client_token, j.submitted_at, j.started_at, j.ended_at, j.version,
j.reruns_used

-- name: job_tables
jobs j LEFT JOIN texts s ON s.id = j.spec LEFT JOIN texts o ON o.id = j.source

-- name: add_jobs
INSERT INTO jobs (id, owner, name, state, hold, spec, spec_check, source, terms, start_after, deadline, cluster, attempt,
    failures, evaluations, evaluated_at, exit_code, reason, client_token, submitted_at, started_at, ended_at, version)
VALUES (:id, :owner, :name, :state, :hold, :spec, :spec_check, :source, :terms, :start_after, :deadline, :cluster, :attempt,
    0, :evaluations, :evaluated_at, NULL, :reason, :client_token, :submitted_at, NULL, :ended_at, 0);

-- name: add_labels
INSERT INTO labels (key, value, job, state) VALUES (:key, :value, :job, :state);

-- name: move_labels
UPDATE labels SET state = :state WHERE job = :job;

-- name: drop_labels
DELETE FROM labels WHERE job = :job;

-- name: add_dependencies
INSERT INTO dependencies (job, kind, waits_for) VALUES (:job, :kind, :waits_for);

-- name: dependencies
SELECT kind, waits_for FROM dependencies WHERE job = :job ORDER BY waits_for, kind;

-- name: waiters
SELECT DISTINCT job FROM dependencies WHERE waits_for = :job AND job > :after ORDER BY job LIMIT :limit;

-- name: add_unsettled
INSERT INTO unsettled_jobs (job, after_job) VALUES (:job, :after_job) ON CONFLICT (job, after_job) DO NOTHING;

-- name: unsettled
SELECT job, after_job FROM unsettled_jobs ORDER BY job, after_job;

-- name: drop_unsettled
DELETE FROM unsettled_jobs;

-- name: jobs_by_ids
SELECT {job_columns} FROM {job_tables} WHERE j.id IN (:*ids);

-- name: jobs_by_tokens
SELECT {job_columns} FROM {job_tables} WHERE j.owner = :owner AND j.client_token IN (:*tokens);

-- name: ids_queued
SELECT id FROM jobs WHERE state = 'queued' AND id > :after ORDER BY id LIMIT :limit;

-- name: count_held
SELECT count(*) FROM jobs WHERE state = 'held' AND hold = :hold;

-- name: waiting
SELECT id, spec, spec_check, terms, owner FROM jobs
WHERE state = 'held' AND hold = :hold AND id > :after ORDER BY id LIMIT :limit;

-- SQLite would take the index on `hold` and sort all that wait for their time.
-- name: ids_to_start @sqlite
SELECT id FROM jobs INDEXED BY jobs_start_after
WHERE state = 'held' AND hold = 'time' AND start_after <= :now ORDER BY start_after, id LIMIT :limit;

-- name: ids_to_start @postgresql
SELECT id FROM jobs WHERE state = 'held' AND hold = 'time' AND start_after <= :now ORDER BY start_after, id LIMIT :limit;

-- name: ids_past_deadline
SELECT id FROM jobs WHERE deadline IS NOT NULL AND ended_at IS NULL AND deadline <= :now AND state <> 'cancelling'
ORDER BY deadline, id LIMIT :limit;

-- name: update_job
UPDATE jobs SET state = :state, hold = :hold, cluster = :cluster, attempt = :attempt, failures = :failures,
    reruns_used = :reruns_used, evaluations = :evaluations, evaluated_at = :evaluated_at, exit_code = :exit_code, reason = :reason,
    started_at = :started_at, ended_at = :ended_at, version = version + 1
WHERE id = :id AND version = :version;

-- SQLite takes many rows in one statement; PostgreSQL would want the type of each value, and gets them together anyway.
-- name: apply_decisions @sqlite
UPDATE jobs SET state = settled.state, hold = settled.hold, cluster = settled.cluster, attempt = settled.attempt,
    evaluations = evaluations + 1, evaluated_at = settled.at, reason = settled.reason, version = jobs.version + 1
FROM (WITH named (state, hold, cluster, attempt, at, reason, id, version) AS (
    VALUES (:state, :hold, :cluster, :attempt, :at, :reason, :id, :version)) SELECT * FROM named) AS settled
WHERE jobs.id = settled.id AND jobs.version = settled.version;

-- name: apply_decisions @postgresql
UPDATE jobs SET state = :state, hold = :hold, cluster = :cluster, attempt = :attempt, evaluations = evaluations + 1,
    evaluated_at = :at, reason = :reason, version = version + 1
WHERE id = :id AND version = :version;

-- name: touch_jobs @sqlite
UPDATE jobs SET version = jobs.version + 1
FROM (WITH named (id, version) AS (VALUES (:id, :version)) SELECT * FROM named) AS touched
WHERE jobs.id = touched.id AND jobs.version = touched.version;

-- name: touch_jobs @postgresql
UPDATE jobs SET version = version + 1 WHERE id = :id AND version = :version;

-- name: update_terms
UPDATE jobs SET terms = :terms, start_after = :start_after, deadline = :deadline, name = :name WHERE id = :id;

-- name: update_priority
UPDATE attempts SET priority = :priority WHERE job = :job AND live = 1;

-- Parts from which lists are put together.

-- name: ids_of_jobs
SELECT j.id FROM jobs j WHERE

-- The label leads, the jobs follow: CROSS JOIN keeps SQLite from turning it round.
-- name: ids_of_labelled
SELECT l.job FROM labels l CROSS JOIN jobs j WHERE j.id = l.job AND l.key = :label_key AND l.value = :label_value AND

-- name: newest
ORDER BY j.id DESC LIMIT :limit

-- name: newest_labelled
ORDER BY l.job DESC LIMIT :limit

-- name: count_of_jobs
SELECT j.state, count(*) FROM jobs j WHERE

-- name: by_state
GROUP BY j.state

-- name: where_below
j.id < :after

-- name: where_label_below
l.job < :after

-- name: where_label_state
l.state = :state AND j.state = :state

-- name: where_from
j.id >= :first AND j.submitted_at >= :since

-- name: where_state
j.state = :state

-- name: where_states
j.state IN (:*states)

-- name: where_owner
j.owner = :owner

-- name: where_owners
j.owner IN (:*owners)

-- The second half says that the index has all of them.
-- name: where_cluster
j.cluster = :cluster AND j.cluster <> ''

-- Without the words by which SQLite would know the partial index: a name says more than a cluster.
-- name: where_cluster_too
j.cluster = :cluster

-- name: where_name
j.name = :name

-- name: where_ids
j.id IN (:*ids)

-- name: submitted_from
SELECT id, submitted_at FROM jobs WHERE id >= :id ORDER BY id LIMIT 1;
