-- On the plain table: every writer has to remember the version.
UPDATE plain_stock SET quantity = 99, version = version + 1 WHERE id = :id AND version = :version RETURNING *;
