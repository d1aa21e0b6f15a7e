-- name: add_events
INSERT INTO events (seq, job, at, kind, state, attempt, detail)
VALUES (:seq, :job, :at, :kind, :state, :attempt, :detail);

-- name: events
SELECT seq, job, at, kind, state, attempt, detail FROM events WHERE seq > :after ORDER BY seq LIMIT :limit;

-- name: events_of_job
SELECT seq, job, at, kind, state, attempt, detail FROM events WHERE job = :job AND seq > :after ORDER BY seq LIMIT :limit;

-- name: events_of_owners
SELECT e.seq, e.job, e.at, e.kind, e.state, e.attempt, e.detail FROM events e JOIN jobs j ON j.id = e.job
WHERE e.seq > :after AND j.owner IN (:*owners) ORDER BY e.seq LIMIT :limit;

-- name: events_of_job_and_owners
SELECT e.seq, e.job, e.at, e.kind, e.state, e.attempt, e.detail FROM events e JOIN jobs j ON j.id = e.job
WHERE e.job = :job AND e.seq > :after AND j.owner IN (:*owners) ORDER BY e.seq LIMIT :limit;

-- name: add_decisions
INSERT INTO decisions (job, n, at, own, record) VALUES (:job, :n, :at, :own, :record)
ON CONFLICT (job, n) DO UPDATE SET at = excluded.at, own = excluded.own, record = excluded.record;

-- name: decisions
SELECT d.n, d.at, d.own, t.digest, t.body FROM decisions d LEFT JOIN texts t ON t.id = d.record WHERE d.job = :job AND d.own <> '' ORDER BY d.at, d.n;

-- name: output_end
SELECT start + length FROM output WHERE job = :job AND n = :n AND stream = :stream ORDER BY start DESC LIMIT 1;

-- name: add_output
INSERT INTO output (job, n, stream, start, length, data, at) VALUES (:job, :n, :stream, :start, :length, :data, :at);

-- The piece that covers an offset starts at or below it; pieces never overlap.
-- name: output_before
SELECT start, length FROM output WHERE job = :job AND n = :n AND stream = :stream AND start <= :offset
ORDER BY start DESC LIMIT 1;

-- name: output_from
SELECT start, data FROM output WHERE job = :job AND n = :n AND stream = :stream AND start >= :first AND start < :end
ORDER BY start;

-- name: output_after
SELECT start FROM output WHERE job = :job AND n = :n AND stream = :stream AND start > :offset ORDER BY start LIMIT 1;

-- name: drop_output
DELETE FROM output WHERE job = :job AND n = :n AND stream = :stream AND start >= :first AND start < :end;

-- name: sync
SELECT epoch, seq, answer FROM syncs WHERE cluster_id = :cluster_id;

-- name: add_past_epoch
INSERT INTO past_epochs (cluster_id, epoch) VALUES (:cluster_id, :epoch) ON CONFLICT (cluster_id, epoch) DO NOTHING;

-- name: past_epoch
SELECT 1 FROM past_epochs WHERE cluster_id = :cluster_id AND epoch = :epoch;

-- name: store_sync
INSERT INTO syncs (cluster_id, epoch, seq, answer) VALUES (:cluster_id, :epoch, :seq, :answer)
ON CONFLICT (cluster_id) DO UPDATE SET epoch = excluded.epoch, seq = excluded.seq, answer = excluded.answer;
