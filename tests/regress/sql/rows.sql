-- The life of a table with row flows.
CREATE EXTENSION idem;
CREATE TABLE item (id int PRIMARY KEY, sku text NOT NULL UNIQUE, name text, quantity int NOT NULL);
INSERT INTO item VALUES (1, 'A-1', 'lamp', 2), (2, 'A-2', 'desk', 5);

SELECT optimistic_enable('item');
SELECT * FROM optimistic_update('item', '{"id": 1}', 1, '{"name": "desk lamp"}');
SELECT * FROM optimistic_update('item', '{"id": 1}', 1, '{"name": "floor lamp"}');
SELECT * FROM optimistic_update('item', '{"sku": "A-9"}', 1, '{"name": "?"}');
UPDATE item SET name = 'oak desk' WHERE id = 2;
UPDATE item SET name = 'old desk', version = 1 WHERE id = 2;
SELECT version FROM item WHERE id = 2;
SELECT count(*) = 1 AS guarded FROM idem_guards WHERE target = 'item'::regclass AND kind = 'version' AND is_enabled;

-- An ORM that saves all columns of an object, and what prevents that it undoes a change.
UPDATE item SET quantity = 4 WHERE id = 2;
UPDATE item SET sku = 'A-2', name = 'elm desk', quantity = 5, version = 2 WHERE id = 2;
WITH saved AS (UPDATE item SET sku = 'A-2', name = 'elm desk', quantity = 5 WHERE id = 2 AND version = 2 RETURNING 1) SELECT count(*) FROM saved;
SELECT outcome, version FROM optimistic_update('item', '{"id": 2}', 2, '{"name": "elm desk", "quantity": 5}');
UPDATE item SET sku = 'A-2', name = 'elm desk', quantity = 5 WHERE id = 2;
SELECT name, quantity, version FROM item WHERE id = 2;

SELECT * FROM conditional_update('item', '{"id": 2}', '{"name": "elm desk"}', '{"name": "pine desk"}');
SELECT * FROM conditional_update('item', '{"id": 2}', '{"name": "elm desk"}', '{"name": "pine desk"}');

SELECT * FROM conditional_adjust('item', '{"id": 1}', 'quantity', -2);
SELECT * FROM conditional_adjust('item', '{"id": 1}', 'quantity', -1);

BEGIN;
SELECT * FROM pessimistic_lock('item', '{"id": 2}');
SELECT * FROM pessimistic_lock_many('item', ARRAY['{"id": 2}', '{"sku": "A-1"}', '{"id": 9}']::jsonb[], wait => '0');
COMMIT;

SELECT * FROM unique_insert('item', '{"id": 3, "sku": "B-1", "quantity": 1}');
SELECT * FROM unique_insert('item', '{"id": 4, "sku": "B-1", "quantity": 7}', '{sku}');

CREATE TABLE visit (day date, visitor text, page text) PARTITION BY RANGE (day);
CREATE TABLE visit_2026 PARTITION OF visit FOR VALUES FROM ('2026-01-01') TO ('2027-01-01');
CREATE INDEX ON visit (visitor);
SELECT * FROM guarded_insert('visit', '{"day": "2026-11-20", "visitor": "ann", "page": "/"}', '{visitor}');
SELECT * FROM guarded_insert('visit', '{"day": "2026-11-21", "visitor": "ann", "page": "/about"}', '{visitor}');

-- Errors.
SELECT * FROM conditional_update('item', '{"name": "lamp"}', '{"quantity": 1}', '{"quantity": 0}');
SELECT optimistic_update('visit', '{"day": "2026-11-20"}', 1, '{}');

-- Inheritance: each table has a guard of its own.
CREATE TABLE used_item () INHERITS (item);
INSERT INTO used_item VALUES (9, 'U-9', 'stool', 1);
SELECT optimistic_disable('item');
SELECT optimistic_enable('item');
UPDATE item SET quantity = 2 WHERE id = 9;
SELECT optimistic_enable('used_item');
UPDATE item SET quantity = 3 WHERE id = 9;
SELECT version FROM item WHERE id = 9;
DROP TABLE used_item;

DROP EXTENSION idem;
SELECT optimistic_disable('item');
DROP EXTENSION idem;
DROP TABLE item, visit;
