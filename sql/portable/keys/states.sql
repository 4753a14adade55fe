-- The states of a key: the values of the column `state`.
CREATE DOMAIN _idem_state AS text COLLATE "C" CHECK (VALUE IN ('p', 'c', 'r', 'd'));
COMMENT ON DOMAIN _idem_state IS 'Internal: p: in progress (leased), c: completed, r: released, d: in doubt.';
