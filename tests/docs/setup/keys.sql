-- The page's own schema, and a completed key of an operator's example.
CREATE TABLE account (id int PRIMARY KEY, balance numeric);
CREATE TABLE entry (account int, amount numeric);
BEGIN;
SELECT idem_begin('signup-17');
SELECT idem_complete('signup-17', '{"name": "Ann"}');
COMMIT;
