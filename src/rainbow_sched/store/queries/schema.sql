-- name: schema_version
SELECT coalesce(max(version), 0) FROM schema_versions;

-- name: add_schema_version
INSERT INTO schema_versions (version, name) VALUES (:version, :name);
