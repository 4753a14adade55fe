--- schema.sql
-- A stock for each strategy, so that none works on what another has bloated. 70 rows to a page leave room for updates in place.
-- Of product 0 there are only a hundred units: it is for selling out.
CREATE TABLE stock_optimistic (
    product int PRIMARY KEY,
    filled int NOT NULL,
    quantity int NOT NULL CHECK (quantity >= 0)
) WITH (fillfactor = 30);
INSERT INTO stock_optimistic
SELECT product, units, units
FROM (SELECT product, CASE product WHEN 0 THEN 100 ELSE 1000000 END AS units FROM generate_series(0, :rows) AS product) AS filling;

CREATE TABLE stock_pessimistic (LIKE stock_optimistic INCLUDING ALL) WITH (fillfactor = 30);
INSERT INTO stock_pessimistic SELECT * FROM stock_optimistic;

CREATE TABLE stock_conditional (LIKE stock_optimistic INCLUDING ALL) WITH (fillfactor = 30);
INSERT INTO stock_conditional SELECT * FROM stock_optimistic;

SELECT optimistic_enable('stock_optimistic');

-- To take a unit is to insert its row.
CREATE TABLE units_next (product int, unit int, PRIMARY KEY (product, unit));
CREATE TABLE units_random (LIKE units_next INCLUDING ALL);

-- What a transaction does besides.
CREATE TABLE sales (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    product int NOT NULL,
    sold_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
VACUUM (ANALYZE);
