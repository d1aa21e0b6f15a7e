-- name: credential_columns
id, kind, digest, owner, scopes, created_at, expires_at, revoked_at, used_at, uses_left, note, ends_at,
replaces, renewal_asked

-- name: add_credential
INSERT INTO credentials ({credential_columns})
VALUES (:id, :kind, :digest, :owner, :scopes, :created_at, :expires_at, :revoked_at, :used_at, :uses_left, :note, :ends_at,
    :replaces, :renewal_asked)
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

-- name: revoke_successors
UPDATE credentials SET revoked_at = :at WHERE owner = :owner AND replaces = :id AND revoked_at IS NULL;

-- name: end_credential
UPDATE credentials SET ends_at = :at WHERE id = :id AND ends_at IS NULL;

-- name: ask_renewal
UPDATE credentials SET renewal_asked = 1 WHERE owner = :owner AND kind = 'agt' AND revoked_at IS NULL;

-- name: touch_credential
UPDATE credentials SET used_at = :at WHERE id = :id;

-- name: spend_credential
UPDATE credentials SET uses_left = uses_left - 1
WHERE id = :id AND revoked_at IS NULL AND (uses_left IS NULL OR uses_left > 0);

-- name: put_user
INSERT INTO users (name, groups, rights, disabled, created_at) VALUES (:name, :groups, :rights, :disabled, :at)
ON CONFLICT (name) DO UPDATE SET groups = excluded.groups, rights = excluded.rights, disabled = excluded.disabled;

-- name: user
SELECT name, groups, rights, disabled, created_at FROM users WHERE name = :name;

-- name: users
SELECT name, groups, rights, disabled, created_at FROM users;

-- name: put_group
INSERT INTO cluster_groups (name, clusters, rights) VALUES (:name, :clusters, :rights)
ON CONFLICT (name) DO UPDATE SET clusters = excluded.clusters, rights = excluded.rights;

-- name: groups
SELECT name, clusters, rights FROM cluster_groups;

-- name: groups_by_name
SELECT name, clusters, rights FROM cluster_groups WHERE name IN (:*names);

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
