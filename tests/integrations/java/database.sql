\ir ../traps.sql
CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL);

CREATE TABLE parent (id int PRIMARY KEY);
CREATE TABLE child (parent int REFERENCES parent DEFERRABLE INITIALLY DEFERRED);

-- A row in it ends the session in COMMIT, before the transaction has committed.
CREATE TABLE killer (id int);
CREATE FUNCTION kill_session() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_terminate_backend(pg_backend_pid());
    PERFORM pg_sleep(60);
    RETURN NULL;
END
$$;
CREATE CONSTRAINT TRIGGER killer AFTER INSERT ON killer DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION kill_session();

-- For the typed functions.
CREATE TABLE parcel (id int PRIMARY KEY, state text NOT NULL);
SELECT idem.idem_machine_define('parcel', '{"initial": ["packed"], "transitions": {"packed": ["sent"]}}');
SELECT idem.idem_machine_attach('parcel', 'state', 'parcel');
INSERT INTO parcel VALUES (1, 'packed');
CREATE TABLE stock (id int PRIMARY KEY, units int NOT NULL);
SELECT idem.optimistic_enable('stock');
SELECT idem.idem_api_key_set('partner', 'a secret of 24 bytes....');

SELECT idem.idem_http_scope_set('orders:picky', unstored_statuses => '{429}', documentation_url => 'https://shop.example/keys');
SELECT idem.idem_http_scope_set('ignoring', ignored_methods => '{DELETE}');
SELECT idem.idem_http_scope_set('echoing', profile => 'acp');
SELECT idem.idem_scope_set('orders:tiny', max_response_size => 30);
