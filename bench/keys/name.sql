-- One of a thousand names, those of this client: no two meet.
\set name :client_id + :clients * random(0, 999 / :clients)
