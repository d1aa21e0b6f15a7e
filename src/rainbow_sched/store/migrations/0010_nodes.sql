-- What an agent can tell its manager about nodes, and on which nodes an attempt ran.

ALTER TABLE clusters ADD COLUMN node_rules TEXT; -- JSON; NULL: no agent ever spoke for the cluster
ALTER TABLE clusters ADD COLUMN wrong_nodes BIGINT NOT NULL DEFAULT 0; -- returns because of nodes that were not allowed

UPDATE clusters SET node_rules = '{"hosts":false,"subsystems":[],"groups":false}'
WHERE id IN (SELECT cluster_id FROM syncs); -- their agents announced nothing yet

ALTER TABLE attempts ADD COLUMN nodes TEXT NOT NULL DEFAULT ''; -- hostlist, as the agent reported it
ALTER TABLE attempts ADD COLUMN code TEXT NOT NULL DEFAULT ''; -- typed reason of a return
