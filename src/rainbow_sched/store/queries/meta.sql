-- name: counters
SELECT name, value FROM counters;

-- name: put_counter
INSERT INTO counters (name, value) VALUES (:name, :value) ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- name: meta
SELECT value FROM meta WHERE key = :key;

-- name: set_meta
INSERT INTO meta (key, value) VALUES (:key, :value) ON CONFLICT (key) DO UPDATE SET value = excluded.value;

-- name: database_bytes @sqlite
SELECT page_count * page_size FROM pragma_page_count, pragma_page_size;

-- name: database_bytes @postgresql
SELECT pg_database_size(current_database());

-- name: texts_by_ids
SELECT id, digest, body FROM texts WHERE id IN (:*ids);

-- name: texts_by_digest
SELECT digest, id FROM texts WHERE digest IN (:*digests);

-- name: add_texts
INSERT INTO texts (id, digest, body) VALUES (:id, :digest, :body);
