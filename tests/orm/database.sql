-- The database :name, owned by the role "shop", with idem in a schema of its own and the machine of the recipes.
SET client_min_messages = warning;
SELECT 'CREATE ROLE shop LOGIN' WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'shop') \gexec
DROP DATABASE IF EXISTS :name WITH (FORCE);
CREATE DATABASE :name OWNER shop;
\connect :name
CREATE SCHEMA idem;
CREATE EXTENSION idem SCHEMA idem;
GRANT USAGE ON SCHEMA idem TO shop;
SELECT idem.idem_grant('shop');
SELECT idem.idem_machine_define('order', '{"initial": ["created"], "transitions": {"created": ["paid", "cancelled"], "paid": ["shipped"]}}');
