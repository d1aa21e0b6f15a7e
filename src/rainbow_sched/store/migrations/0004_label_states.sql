-- Lists by label and state are a range of one index, too: a label knows the state of its job.

ALTER TABLE labels ADD COLUMN state TEXT NOT NULL DEFAULT '';

UPDATE labels SET state = (SELECT j.state FROM jobs j WHERE j.id = labels.job);

CREATE INDEX labels_state ON labels (key, value, state, job);
