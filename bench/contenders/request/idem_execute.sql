-- One round trip: claim, insert, response and commit.
SELECT * FROM idem_execute(:key,
    'INSERT INTO orders (customer_id, amount) VALUES ($1, $2) RETURNING id',
    jsonb_build_array(:customer_id::int, :amount::numeric));
