-- Which server serves this database: one row for each role, and "server" is the only role today. The term only grows;
-- every write of a server checks it. `expires_at` is read and written by the database's own clock; 0 means released.

CREATE TABLE claims (
    role TEXT PRIMARY KEY,
    term BIGINT NOT NULL,
    instance TEXT NOT NULL,
    host TEXT NOT NULL,
    process BIGINT NOT NULL,
    boot TEXT NOT NULL,
    pid_space TEXT NOT NULL,
    process_start TEXT NOT NULL,
    since DOUBLE PRECISION NOT NULL,
    renewals BIGINT NOT NULL,
    expires_at DOUBLE PRECISION NOT NULL
);
