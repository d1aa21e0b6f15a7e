-- name: clock @sqlite
(julianday('now') - 2440587.5) * 86400.0

-- name: clock @postgresql
CAST(extract(epoch FROM clock_timestamp()) AS DOUBLE PRECISION)

-- name: claim
SELECT term, instance, host, process, boot, pid_space, process_start, since, renewals, expires_at, {clock}
FROM claims WHERE role = :role;

-- name: lock_claim @sqlite
SELECT term FROM claims WHERE role = :role;

-- name: lock_claim @postgresql
SELECT term FROM claims WHERE role = :role FOR UPDATE;  -- waits for every write that has checked the claim

-- name: check_claim @sqlite
SELECT term FROM claims WHERE role = :role AND term = :term AND instance = :instance;

-- name: check_claim @postgresql
SELECT term FROM claims WHERE role = :role AND term = :term AND instance = :instance
FOR KEY SHARE;  -- until the end of the transaction; a renewal does not wait for it, a takeover does

-- name: add_claim
INSERT INTO claims (
    role, term, instance, host, process, boot, pid_space, process_start, since, renewals, expires_at
) VALUES (:role, 0, '', '', 0, '', '', '', 0, 0, 0) ON CONFLICT (role) DO NOTHING;

-- name: take_claim
UPDATE claims SET
    term = term + 1, instance = :instance, host = :host, process = :process, boot = :boot, pid_space = :pid_space,
    process_start = :process_start, since = {clock}, renewals = 0, expires_at = {clock} + :lease
WHERE role = :role AND term = :seen_term AND instance = :seen_instance AND renewals = :seen_renewals;

-- name: renew_claim
UPDATE claims SET renewals = renewals + 1, expires_at = {clock} + :lease
WHERE role = :role AND term = :term AND instance = :instance;

-- name: release_claim
UPDATE claims SET expires_at = 0 WHERE role = :role AND term = :term AND instance = :instance;
