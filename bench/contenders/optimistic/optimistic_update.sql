-- On the guarded table, whose trigger refuses everybody else's lost update too.
SELECT outcome, version, row_data
FROM optimistic_update('guarded_stock', jsonb_build_object('id', :id::bigint), :version, '{"quantity": 99}');
