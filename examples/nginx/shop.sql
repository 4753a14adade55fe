-- What shop.py works on. Nothing in it would refuse a second order.
CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, item text NOT NULL);
-- Each arrival of a request at a server, whatever became of it: for whoever wants to see that nginx did ask twice.
CREATE TABLE arrival (server int NOT NULL, path text NOT NULL, request text NOT NULL);
