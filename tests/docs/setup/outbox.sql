CREATE TABLE orders (id int, state text);
CREATE TABLE account (name text, balance int);
