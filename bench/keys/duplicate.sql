-- One of the keys of prefill.sql, by the same formula.
\set key 1000000000000000000 + random(1, :prefill) * (8000000000000000000 / :prefill)
