-- Finished jobs can be removed; what was told of them to watchers is remembered by number.

CREATE INDEX jobs_ended ON jobs (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX commands_job ON commands (job);

-- Of each owner's events, those up to `seq` are no longer complete.
CREATE TABLE horizons (owner TEXT PRIMARY KEY, seq BIGINT NOT NULL);
