-- A job is kept while another that waits for it has not ended.
-- name: ids_to_remove
SELECT j.id FROM jobs j WHERE j.ended_at IS NOT NULL AND j.ended_at <= :before AND NOT EXISTS (
    SELECT 1 FROM dependencies d CROSS JOIN jobs w WHERE w.id = d.job AND d.waits_for = j.id AND w.ended_at IS NULL)
ORDER BY j.ended_at LIMIT :limit;

-- name: count_finished
SELECT count(*) FROM jobs WHERE ended_at IS NOT NULL;

-- name: last_events
SELECT j.owner, max(e.seq) FROM events e JOIN jobs j ON j.id = e.job WHERE e.job IN (:*ids) GROUP BY j.owner;

-- name: raise_horizon
INSERT INTO horizons (owner, seq) VALUES (:owner, :seq)
ON CONFLICT (owner) DO UPDATE SET seq = CASE WHEN excluded.seq > horizons.seq THEN excluded.seq ELSE horizons.seq END;

-- name: horizon
SELECT coalesce(max(seq), 0) FROM horizons;

-- name: horizon_of
SELECT coalesce(max(seq), 0) FROM horizons WHERE owner IN (:*owners);

-- name: remove_labels
DELETE FROM labels WHERE job IN (:*ids);

-- name: remove_waits
DELETE FROM dependencies WHERE job IN (:*ids);

-- name: remove_awaited
DELETE FROM dependencies WHERE waits_for IN (:*ids);

-- name: remove_commands
DELETE FROM commands WHERE job IN (:*ids);

-- name: remove_output
DELETE FROM output WHERE job IN (:*ids);

-- name: remove_decisions
DELETE FROM decisions WHERE job IN (:*ids);

-- name: remove_events
DELETE FROM events WHERE job IN (:*ids);

-- name: remove_attempts
DELETE FROM attempts WHERE job IN (:*ids);

-- name: remove_jobs
DELETE FROM jobs WHERE id IN (:*ids);
