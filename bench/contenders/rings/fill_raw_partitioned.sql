-- The keys numbered from `first` to `last`, into partition `number`: in one statement and sorted, which is the fastest way.
INSERT INTO partitioned_keys (scope, key, created_at, expires_at)
SELECT '', md5(n::text)::uuid::text COLLATE "C" AS key, current_date + :number - 7, current_date + :number + 1
FROM generate_series(:first, :last) AS n
ORDER BY key;
