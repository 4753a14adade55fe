-- The life of a machine, its tables and their children.
CREATE EXTENSION idem;
SELECT idem_machine_define('order', '{"initial": ["created"], "transitions": {
    "created": ["paid", "cancelled"], "paid": ["shipped", "refunded"],
    "shipped": ["delivered", "returned"], "returned": ["refunded"]}}');
CREATE TABLE orders (id bigint PRIMARY KEY, state text NOT NULL);
SELECT idem_machine_attach('orders', 'state', 'order', log => true);
INSERT INTO orders VALUES (1, 'created');
INSERT INTO orders VALUES (2, 'shipped');
UPDATE orders SET state = 'paid' WHERE id = 1;
UPDATE orders SET state = 'delivered' WHERE id = 1;
SELECT idem_machine_define('order2', '{"initial": ["created"], "transitions": {"created": ["paid"], "lost": ["found"]}}');
SELECT idem_machine_define('order', '{"initial": ["created"], "transitions": {"created": ["cancelled"]}}');
SELECT key, from_state, to_state FROM idem_transition_log
 WHERE target = 'public.orders' AND key = '{"id": 1}' ORDER BY at;
SELECT idem_can_transition('order', 'paid', 'shipped'), idem_can_transition('order', 'paid', 'delivered');
SELECT * FROM idem_transition('orders', '{"id": 1}', 'paid', 'shipped');
SELECT * FROM idem_transition('orders', '{"id": 1}', 'paid', 'shipped');
SELECT * FROM idem_transition('orders', '{"id": 1}', 'paid', 'delivered');
SELECT * FROM idem_transition('orders', '{"id": 1}', NULL, 'created');
SELECT * FROM idem_transition('orders', '{"id": 9}', NULL, 'paid');
SELECT idem_machine_mermaid('order');
SELECT idem_machine_drop('order');

-- A table with a history.
CREATE TABLE tickets (id bigint PRIMARY KEY, state text);
INSERT INTO tickets VALUES (1, 'created'), (2, 'payed');
SELECT idem_machine_attach('tickets', 'state', 'order', validate => false);
UPDATE tickets SET state = 'paid' WHERE id = 2;
SELECT idem_machine_validate('tickets', 'state');
SELECT * FROM (VALUES ('orders'::regclass, 'state', 'state'::name), ('tickets', 'state', 'state')) AS expected (target, kind, column_name)
EXCEPT SELECT target, kind, column_name FROM idem_guards WHERE is_enabled;
BEGIN;
ALTER TABLE tickets DISABLE TRIGGER idem_state_state;
UPDATE tickets SET state = 'paid' WHERE id = 2;
ALTER TABLE tickets ENABLE TRIGGER idem_state_state;
COMMIT;
SELECT idem_machine_validate('tickets', 'state');
SELECT target, kind, column_name, machine, is_enabled, is_valid FROM idem_guards ORDER BY target::text;
DROP TABLE tickets;

-- Inheritance: each table has a guard of its own.
CREATE TABLE express () INHERITS (orders);
INSERT INTO express VALUES (3, 'delivered');
SELECT idem_machine_detach('orders', 'state');
SELECT idem_machine_attach('orders', 'state', 'order');
UPDATE orders SET state = 'created' WHERE id = 3;
SELECT idem_machine_attach('express', 'state', 'order');
UPDATE orders SET state = 'shipped' WHERE id = 3;
DROP TABLE express;

DROP EXTENSION idem;
SELECT idem_machine_detach('orders', 'state');
SELECT idem_machine_drop('order');
DROP EXTENSION idem;
DROP TABLE orders;
