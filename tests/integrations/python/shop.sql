CREATE SCHEMA shop;
CREATE TABLE shop.item (id int PRIMARY KEY, name text, price numeric, day date, state text NOT NULL DEFAULT 'created');
SELECT idem.optimistic_enable('shop.item');
SELECT idem.idem_machine_define('item', '{"initial": ["created"], "transitions": {"created": ["paid", "cancelled"], "paid": ["shipped"]}}');
SELECT idem.idem_machine_attach('shop.item', 'state', 'item');
