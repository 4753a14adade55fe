CREATE TABLE orders (id int, item text);
SELECT idem_token_issue('alice', '10 min', 'checkout') AS token \gset
