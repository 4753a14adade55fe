-- What the programs in Python, Node and Java work on. No table has a unique index that would refuse a second payment: idem alone
-- is what keeps each request's to one. The extension is in a schema of its own, and the programs' role owns nothing of it.
CREATE TABLE payment (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, request text NOT NULL, amount int NOT NULL, charge text NOT NULL);
CREATE TABLE receipt (message text NOT NULL); -- one per message, in the end
-- What the clients were told, for whoever wants to check: one row per delivery of a request.
CREATE TABLE answer (request text NOT NULL, delivery int NOT NULL, status int NOT NULL, body jsonb NOT NULL);
