-- The database drivers_template, owned by the role "shop", with idem in a schema of its own: every driver has a copy.
SET client_min_messages = warning;
CREATE ROLE shop LOGIN PASSWORD 'shop';
CREATE DATABASE drivers_template OWNER shop;
\connect drivers_template
CREATE SCHEMA idem;
CREATE EXTENSION idem SCHEMA idem;
SELECT idem.idem_grant('shop');
SELECT idem.idem_machine_define('order', '{"initial": ["created"], "transitions": {"created": ["paid", "cancelled"], "paid": ["shipped"]}}');
SELECT idem.idem_api_key_set('shop', '0123456789abcdef0123456789abcdef');
SELECT idem.idem_webhook_source_set('github', 'github', 'It''s a Secret to Everybody');
SET ROLE shop;
CREATE TABLE orders (
    id    integer PRIMARY KEY,
    email text UNIQUE,
    state text NOT NULL DEFAULT 'created',
    note  text,
    stock integer NOT NULL DEFAULT 10
);
CREATE TABLE notes (id integer, note text, tags text[]);
CREATE INDEX ON notes (note);
CREATE TABLE payments (id integer PRIMARY KEY, amount integer NOT NULL);
CREATE TABLE parcels (id integer PRIMARY KEY, state text NOT NULL);
INSERT INTO orders (id, email) VALUES (1, 'a@example.com'), (2, 'b@example.com'), (5, 'e@example.com');
SELECT idem.optimistic_enable('orders'), idem.idem_machine_attach('orders', 'state', 'order');
