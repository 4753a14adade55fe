SELECT * FROM plain_stock WHERE id = :id FOR UPDATE;
