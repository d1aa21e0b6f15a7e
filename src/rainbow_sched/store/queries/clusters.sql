-- name: cluster_columns
id, name, standing, manager, registered_at, seen_at, state, state_at, marks, used, rules, record, drain_reason, version,
node_rules, wrong_nodes

-- name: add_cluster
INSERT INTO clusters (id, name, standing, manager, registered_at, state, marks, used, rules, record, drain_reason, version)
VALUES (:id, :name, 'active', '', :at, '{}', '{}', '{}', '{}', '{}', '', 0);

-- name: cluster
SELECT {cluster_columns} FROM clusters WHERE name = :name AND removed_at IS NULL;

-- name: cluster_id
SELECT id FROM clusters WHERE name = :name AND removed_at IS NULL;

-- name: live_clusters
SELECT name, id, rules FROM clusters WHERE name IN (:*names) AND removed_at IS NULL;

-- name: cluster_by_id
SELECT {cluster_columns} FROM clusters WHERE id = :id;

-- name: clusters
SELECT {cluster_columns} FROM clusters WHERE removed_at IS NULL;

-- name: count_clusters
SELECT count(*) FROM clusters WHERE removed_at IS NULL;

-- name: update_cluster
UPDATE clusters SET standing = :standing, manager = :manager, seen_at = :seen_at, state = :state, state_at = :state_at,
    marks = :marks, used = :used, rules = :rules, record = :record, drain_reason = :drain_reason,
    node_rules = :node_rules, wrong_nodes = :wrong_nodes, version = version + 1
WHERE id = :id;

-- name: remove_cluster
UPDATE clusters SET standing = 'removed', removed_at = :at, version = version + 1 WHERE id = :id AND removed_at IS NULL;

-- name: put_graph
INSERT INTO graphs (cluster, subsystem, digest, data, at) VALUES (:cluster, :subsystem, :digest, :data, :at)
ON CONFLICT (cluster, subsystem) DO UPDATE SET digest = excluded.digest, data = excluded.data, at = excluded.at;

-- name: graph
SELECT subsystem, digest, data FROM graphs WHERE cluster = :cluster AND subsystem = :subsystem;

-- name: graphs
SELECT subsystem, digest, data FROM graphs WHERE cluster = :cluster;

-- name: subsystems
SELECT subsystem FROM graphs WHERE cluster = :cluster AND subsystem <> '';

-- name: drop_graph
DELETE FROM graphs WHERE cluster = :cluster AND subsystem = :subsystem;

-- name: drop_graphs
DELETE FROM graphs WHERE cluster = :cluster;
