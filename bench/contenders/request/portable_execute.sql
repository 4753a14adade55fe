-- One round trip by the portable edition.
SELECT * FROM portable.idem_execute(:key,
    'INSERT INTO orders (customer_id, amount) VALUES ($1, $2) RETURNING id',
    jsonb_build_array(:customer_id::int, :amount::numeric));
