-- What many decisions share is a text of its own (`record`); what is a decision's own stands beside it.
-- Decisions from before have everything in the text, in a form that is no longer read.
ALTER TABLE decisions ADD COLUMN own TEXT NOT NULL DEFAULT '';
