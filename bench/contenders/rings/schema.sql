-- Keys by the day of their claim: the partitions of the seven days before are full, the newest takes new keys. A unique index across
-- partitions would need the day in it, so each partition has its own.
CREATE TABLE partitioned_keys (LIKE raw_keys INCLUDING DEFAULTS) PARTITION BY RANGE (created_at);
SELECT format('CREATE TABLE partitioned_keys_%s PARTITION OF partitioned_keys FOR VALUES FROM (%L) TO (%L)',
              number, current_date + number - 7, current_date + number - 6 + CASE number WHEN 7 THEN 1 ELSE 0 END)
FROM generate_series(0, 7) AS number \gexec
SELECT format('ALTER TABLE partitioned_keys_%s ADD PRIMARY KEY (scope, key)', number) FROM generate_series(0, 7) AS number \gexec
-- Arrays of keys that were made before the call that is timed.
CREATE TABLE key_batches (keys text[] NOT NULL);
CREATE EXTENSION pg_prewarm;
