-- name: credential_columns
id, kind, digest, owner, scopes, created_at, expires_at, revoked_at, used_at, uses_left, note

-- name: add_credential
INSERT INTO credentials (id, kind, digest, owner, scopes, created_at, expires_at, revoked_at, used_at, uses_left, note)
VALUES (:id, :kind, :digest, :owner, :scopes, :created_at, :expires_at, :revoked_at, :used_at, :uses_left, :note)
ON CONFLICT (id) DO NOTHING;

-- name: credential
SELECT {credential_columns} FROM credentials WHERE id = :id;

-- name: credentials
SELECT {credential_columns} FROM credentials ORDER BY created_at, id;

-- name: credentials_of
SELECT {credential_columns} FROM credentials WHERE owner = :owner ORDER BY created_at, id;

-- name: revoke
UPDATE credentials SET revoked_at = :at WHERE id = :id AND revoked_at IS NULL;

-- name: revoke_of
UPDATE credentials SET revoked_at = :at WHERE owner = :owner AND revoked_at IS NULL;

-- name: touch_credential
UPDATE credentials SET used_at = :at WHERE id = :id;

-- name: spend_credential
UPDATE credentials SET uses_left = uses_left - 1
WHERE id = :id AND revoked_at IS NULL AND (uses_left IS NULL OR uses_left > 0);

-- name: put_user
INSERT INTO users (name, groups, disabled, created_at) VALUES (:name, :groups, :disabled, :at)
ON CONFLICT (name) DO UPDATE SET groups = excluded.groups, disabled = excluded.disabled;

-- name: user
SELECT name, groups, disabled, created_at FROM users WHERE name = :name;

-- name: users
SELECT name, groups, disabled, created_at FROM users;

-- name: put_group
INSERT INTO cluster_groups (name, clusters) VALUES (:name, :clusters)
ON CONFLICT (name) DO UPDATE SET clusters = excluded.clusters;

-- name: groups
SELECT name, clusters FROM cluster_groups;

-- name: audit_columns
seq, at, actor, credential, address, verb, object, outcome, detail, digest

-- name: add_audit
INSERT INTO audit ({audit_columns})
VALUES (:seq, :at, :actor, :credential, :address, :verb, :object, :outcome, :detail, :digest);

-- name: audit_digest
SELECT digest FROM audit WHERE seq = :seq;

-- name: audit
SELECT {audit_columns} FROM audit WHERE seq > :after

-- name: oldest_audit
ORDER BY seq LIMIT :limit

-- name: audit_actor
actor = :actor

-- name: audit_credential
credential = :credential

-- name: audit_address
address = :address

-- name: audit_verb
verb = :verb

-- name: audit_object
object = :object

-- name: audit_outcome
outcome = :outcome
