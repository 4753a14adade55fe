-- Callers of one key queue up before they look. Two keys of one hash wait for each other, and that is all.
SELECT claim_under_lock(:key);
