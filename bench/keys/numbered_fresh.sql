-- The numbers after those that are there, which the clients share out.
\set turn :turn + 1
\set n :keys + 1 + :turn * :clients + :client_id
