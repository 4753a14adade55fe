-- The hand-written statement on the guarded table: what is left is the price of calling the function.
UPDATE guarded_stock SET quantity = 99, version = version + 1 WHERE id = :id AND version = :version RETURNING *;
