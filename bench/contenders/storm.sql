--- schema.sql
-- As place_order of the requests, but that the work takes a while.
CREATE FUNCTION place_order_slowly(request_key text, seconds float8, OUT is_new boolean, OUT answer jsonb)
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO raw_keys (scope, key, expires_at)
    VALUES ('', request_key, now() + interval '24 hours')
    ON CONFLICT (scope, key) DO NOTHING;
    is_new := FOUND;
    IF NOT is_new THEN
        SELECT response INTO answer FROM raw_keys WHERE scope = '' AND key = request_key;
        RETURN;
    END IF;

    INSERT INTO orders (customer_id, amount) SELECT 17, 12.50 FROM pg_sleep(seconds)
    RETURNING jsonb_build_array(jsonb_build_object('id', id)) INTO answer;
    UPDATE raw_keys SET status_code = 201, response = answer WHERE scope = '' AND key = request_key;
END
$$;
