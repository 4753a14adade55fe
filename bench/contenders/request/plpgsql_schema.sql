CREATE FUNCTION place_order(request_key text, for_customer bigint, order_amount numeric) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    answer jsonb;
BEGIN
    INSERT INTO raw_keys (scope, key, expires_at)
    VALUES ('', request_key, now() + interval '24 hours')
    ON CONFLICT (scope, key) DO NOTHING;
    IF NOT FOUND THEN
        RETURN (SELECT response FROM raw_keys WHERE scope = '' AND key = request_key);
    END IF;

    INSERT INTO orders (customer_id, amount) VALUES (for_customer, order_amount)
    RETURNING jsonb_build_array(jsonb_build_object('id', id)) INTO answer;

    UPDATE raw_keys SET status_code = 201, response = answer WHERE scope = '' AND key = request_key;
    RETURN answer;
END
$$;
