CREATE TABLE orders (id int, item text);
