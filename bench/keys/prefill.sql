-- The keys that are there before a run starts: `prefill` keys of 19 digits spread evenly, handed out in random chunks so
-- that the indexes fill as they do in service rather than left to right.
CREATE TABLE prefill_chunks AS
SELECT array_agg(key ORDER BY key COLLATE "C") AS keys
FROM (SELECT (1000000000000000000 + i * (8000000000000000000 / :prefill))::text AS key,
             row_number() OVER (ORDER BY md5(i::text)) AS place
      FROM generate_series(1, :prefill::bigint) AS i) AS shuffled
GROUP BY place / 1000;
