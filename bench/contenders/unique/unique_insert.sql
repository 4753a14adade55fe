SELECT outcome, row_data
FROM unique_insert('redemptions', jsonb_build_object('code', :key::text, 'customer_id', :customer_id::bigint));
