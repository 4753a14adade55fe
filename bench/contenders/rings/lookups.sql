-- Look-ups of keys that are nowhere, in one statement: neither round trips nor commits are timed.
SELECT count(found.*)
FROM generate_series(2000000000 + :first, 2000000000 + :first + :lookups - 1) AS n, idem_lookup(md5(n::text)::uuid::text, :'scope') AS found;
