-- \gset fails when there is no row.
SELECT status_code, response FROM idem_lookup(md5(:n)::uuid::text) \gset
