-- The README's example: what it shows must be what happens.
CREATE SCHEMA idem;
CREATE EXTENSION idem SCHEMA idem;
SET search_path = public, idem;
CREATE TABLE payment (id int GENERATED ALWAYS AS IDENTITY, account text, amount numeric);
BEGIN;
SELECT outcome FROM idem_begin('pay-7f3a', idem_fingerprint('{"account": "alice", "amount": 25}'));
INSERT INTO payment (account, amount) VALUES ('alice', 25);
SELECT idem_complete('pay-7f3a', '{"payment": 1, "status": "paid"}', 201);
COMMIT;
SELECT outcome, status_code, response FROM idem_begin('pay-7f3a', idem_fingerprint('{"amount": 25.00, "account": "alice"}'));
SELECT outcome FROM idem_begin('pay-7f3a', idem_fingerprint('{"account": "alice", "amount": 9000}'));
SELECT outcome, response FROM idem_execute('pay-7f3b', 'INSERT INTO payment (account, amount) VALUES ($1, $2) RETURNING id, amount', '["bob", 12.50]');
SELECT outcome, response FROM idem_execute('pay-7f3b', 'INSERT INTO payment (account, amount) VALUES ($1, $2) RETURNING id, amount', '["bob", 12.50]');
SELECT count(*) FROM payment;

-- Nothing is left behind.
DROP TABLE payment;
DROP EXTENSION idem;
DROP SCHEMA idem;
SELECT count(*) FROM pg_proc WHERE proname LIKE 'idem\_%';
