-- Both ends of a queue. In life they would be two databases.
CREATE TABLE movement (account int NOT NULL, number int NOT NULL, amount int NOT NULL);
-- What the consumer makes of the messages. Nothing in it would refuse a second row for one; `applied` is the order in which they came.
CREATE TABLE ledger (applied bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, account int NOT NULL, number int NOT NULL, amount int NOT NULL);

-- A publisher: the movement and the message about it are there together, or neither is. One account's messages stay in order.
CREATE FUNCTION move(account int, number int, amount int) RETURNS bigint LANGUAGE sql
BEGIN ATOMIC
    INSERT INTO movement VALUES (account, number, amount);
    SELECT idem.idem_publish('movements', jsonb_build_object('account', account, 'number', number, 'amount', amount), 'account ' || account);
END;
