-- The version that bench/keys/row.sql counts says in which state the row is.
SELECT outcome, state
FROM idem_transition('guarded_jobs', jsonb_build_object('id', :id::bigint),
    ('{running,idle}'::text[])[1 + :version % 2], ('{idle,running}'::text[])[1 + :version % 2]);
