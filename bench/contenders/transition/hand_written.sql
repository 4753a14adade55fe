-- On the plain table: nobody knows which moves are allowed but the author of the statement.
UPDATE plain_jobs SET status = ('{idle,running}'::text[])[1 + :version % 2]
WHERE id = :id AND status = ('{running,idle}'::text[])[1 + :version % 2]
RETURNING status;
