-- name: attempt_columns
job, n, cluster, token, state, created_at, lease_until, accepted_at, started_at, ended_at, exit_code, failure, reason,
native_id, suspect, holder, guarded, nodes, code

-- name: add_attempts
INSERT INTO attempts (job, n, cluster_id, cluster, token, state, live, priority, created_at, reason, native_id, suspect, holder)
VALUES (:job, :n, :cluster_id, :cluster, :token, 'offered', 1, :priority, :created_at, '', '', 0, '');

-- name: attempt
SELECT {attempt_columns} FROM attempts WHERE job = :job AND n = :n;

-- name: last_attempt
SELECT coalesce(max(n), 0) FROM attempts WHERE job = :job;

-- name: attempts
SELECT {attempt_columns} FROM attempts WHERE job = :job ORDER BY n;

-- name: live_attempts
SELECT {attempt_columns} FROM attempts WHERE cluster_id = :cluster_id AND live = 1 ORDER BY job, n;

-- name: attempts_in
SELECT {attempt_columns} FROM attempts WHERE cluster_id = :cluster_id AND live = 1 AND state = :state ORDER BY job, n;

-- name: some_attempts_in
SELECT {attempt_columns} FROM attempts WHERE cluster_id = :cluster_id AND live = 1 AND state = :state
ORDER BY priority DESC, job LIMIT :limit;

-- name: placed_attempts
SELECT a.job, a.token, a.created_at, j.spec, j.spec_check, j.owner, a.nodes FROM attempts a CROSS JOIN jobs j
WHERE j.id = a.job AND a.cluster_id = :cluster_id AND a.live = 1 AND a.state = :state ORDER BY a.priority DESC, a.job;

-- name: count_live
SELECT state, count(*) FROM attempts WHERE cluster_id = :cluster_id AND live = 1 GROUP BY state;

-- name: update_attempt
UPDATE attempts SET state = :state, live = :live, lease_until = :lease_until, accepted_at = :accepted_at,
    started_at = :started_at, ended_at = :ended_at, exit_code = :exit_code, failure = :failure, reason = :reason,
    native_id = :native_id, suspect = :suspect, holder = :holder, guarded = :guarded,
    nodes = :nodes, code = :code
WHERE job = :job AND n = :n AND state = :before AND token = :token;

-- name: lease_offered
UPDATE attempts SET state = 'leased', lease_until = :until, holder = :holder
WHERE (job, n) IN (
    SELECT a.job, a.n FROM attempts a CROSS JOIN jobs j
    WHERE j.id = a.job AND a.cluster_id = :cluster_id AND a.live = 1 AND a.state = 'offered' AND j.state = 'bound'
    ORDER BY a.priority DESC, a.job LIMIT :limit)
RETURNING priority, {attempt_columns};

-- Few leases have lapsed at any time; without `live` the index on lease_until leads, not the one on the queue.
-- name: lease_lapsed
UPDATE attempts SET lease_until = :until, holder = :holder
WHERE (job, n) IN (
    SELECT a.job, a.n FROM attempts a CROSS JOIN jobs j
    WHERE j.id = a.job AND a.cluster_id = :cluster_id AND a.state = 'leased' AND a.lease_until <= :now
        AND j.state = 'bound'
    ORDER BY a.priority DESC, a.job LIMIT :limit)
RETURNING priority, {attempt_columns};

-- name: received
SELECT 1 FROM attempts WHERE cluster_id = :cluster_id AND live = 0 AND state = 'handed_off' LIMIT 1;

-- name: lapsed
SELECT {attempt_columns} FROM attempts WHERE state = 'leased' AND lease_until <= :now ORDER BY lease_until, job LIMIT :limit;

-- name: open_command
SELECT id FROM commands WHERE job = :job AND n = :n AND kind = :kind AND acknowledged = 0;

-- name: add_command
INSERT INTO commands (id, job, n, cluster_id, kind, at, acknowledged)
SELECT :id, a.job, a.n, a.cluster_id, :kind, :at, 0 FROM attempts a WHERE a.job = :job AND a.n = :n;

-- name: commands
SELECT c.id, c.job, c.n, a.token, c.kind, c.at FROM commands c JOIN attempts a ON a.job = c.job AND a.n = c.n
WHERE c.cluster_id = :cluster_id AND c.acknowledged = 0 AND a.live = 1 ORDER BY c.id;

-- name: ack_command
UPDATE commands SET acknowledged = 1 WHERE id = :id;
