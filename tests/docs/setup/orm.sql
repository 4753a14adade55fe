CREATE TABLE orders (id int PRIMARY KEY, state text NOT NULL);
SELECT idem_machine_define('order', '{"initial": ["created", "shipped"], "transitions": {"created": ["shipped"]}}');
