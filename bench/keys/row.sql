-- Every row once, in random order, before any comes again: the n-th time its version is n. The clients share the rows out, so
-- that none meets another.
\set turn :turn + 1
\set place :turn * :clients + :client_id
\set id 1 + permute(:place, :rows)
\set version 1 + :place / :rows
