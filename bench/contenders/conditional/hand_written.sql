UPDATE plain_stock SET quantity = quantity - 1 WHERE id = :id AND quantity >= 1 RETURNING quantity;
