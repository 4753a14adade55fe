SELECT outcome, value FROM conditional_adjust('plain_stock', jsonb_build_object('id', :id::bigint), 'quantity', -1);
