-- Databases of other encodings than UTF-8, and one of none: in SQL_ASCII a text is any bytes.
\set VERBOSITY sqlstate
SET client_min_messages = error;
CREATE DATABASE idem_sql_ascii TEMPLATE template0 ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C';
CREATE DATABASE idem_latin1 TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C';
CREATE DATABASE idem_euc_jp TEMPLATE template0 ENCODING 'EUC_JP' LC_COLLATE 'C' LC_CTYPE 'C';
\getenv tests PG_ABS_SRCDIR
\set odd_arguments :tests '/../pgtap/include/odd_arguments.psql'
\set seed 1
\set rounds 5

\connect idem_sql_ascii
CREATE EXTENSION idem;
SELECT convert_from('\xe9', 'SQL_ASCII') AS e, convert_from('\xfffe', 'SQL_ASCII') AS bytes \gset
-- Bytes are compared as they are; what is not UTF-8 cannot be fingerprinted as text.
SELECT idem_claim(:'e'), idem_claim(:'e'), idem_claim(:'bytes'), idem_claim('key', scope => :'bytes');
SELECT idem_key(:'bytes', 'a') = :'bytes' || ':a';
SELECT idem_token_redeem(idem_token_issue(:'bytes'), :'bytes'), idem_token_redeem(idem_token_issue(:'bytes'), :'e');
SELECT idem_fingerprint_text(convert_from('\xc3a9', 'SQL_ASCII')) = idem_fingerprint_bytes('\xc3a9');
SELECT idem_fingerprint_text(:'bytes');
SELECT idem_fingerprint(to_jsonb(:'bytes'::text));
-- Nor can it be signed: such a request is invalid, which is no error.
SELECT idem_api_key_set('shop', 'a secret of the shop');
SELECT idem_verify_request(params, repeat('0', 64), key_id, clock_timestamp(), nonce)
  FROM (VALUES (jsonb_build_object('a', :'bytes'::text), 'shop', 'n'), (jsonb_build_object(:'bytes', jsonb_build_object(:'e', 1)), 'shop', 'n'),
               ('{}', :'bytes', 'n'), ('{}', 'shop', :'e')) AS v (params, key_id, nonce);
SELECT idem_request_message(jsonb_build_object('a', :'bytes'::text), 'k', '1970-01-01 00:00+00', 'n');
SELECT idem_request_message(jsonb_build_object('a', 'é'), 'k', '1970-01-01 00:00+00', 'n');
SELECT idem_machine_define('bytes', jsonb_build_object('initial', jsonb_build_array(:'bytes'), 'transitions', jsonb_build_object(:'bytes', '{}'::text[])));
SELECT strpos(idem_machine_dot('bytes'), :'bytes') > 0, strpos(idem_machine_mermaid('bytes'), :'bytes') > 0;
\o /dev/null
\set ECHO none
\i :odd_arguments
\set ECHO all
\o
SELECT :'problems' AS problems, :'uncovered' AS uncovered;

\connect idem_latin1
CREATE EXTENSION idem;
SELECT convert_from('\xe9', 'LATIN1') AS e \gset
-- A fingerprint is that of the text in UTF-8, whatever the encoding.
SELECT idem_fingerprint_text(:'e') = idem_fingerprint_bytes('\xc3a9');
SELECT idem_fingerprint(to_jsonb(:'e'::text)) = idem_fingerprint_bytes('\x22c3a922');
-- What is signed is shown in the server's encoding.
SELECT idem_request_message(jsonb_build_object('a', :'e'), 'k', '1970-01-01 00:00+00', 'n') = convert_from('\x5b226964656d31222c226b222c302c226e222c7b2261223a22e9227d5d', 'LATIN1');
SELECT idem_claim(:'e'), idem_claim(:'e');
-- 1024 bytes are the most, of whatever encoding.
SELECT idem_claim(repeat(:'e', 1024)), idem_claim(repeat(:'e', 1025));
SELECT idem_claim(repeat(:'e', 1024));
SELECT idem_token_redeem(idem_token_issue(:'e'), :'e');
\o /dev/null
\set ECHO none
\i :odd_arguments
\set ECHO all
\o
SELECT :'problems' AS problems, :'uncovered' AS uncovered;

\connect idem_euc_jp
-- An encoding that does not let in bytes that are none of its characters.
CREATE EXTENSION idem;
SELECT convert_from('\xb8b0', 'EUC_JP') AS key \gset
SELECT idem_fingerprint_text(:'key') = idem_fingerprint_bytes('\xe98db5'), idem_claim(:'key'), idem_claim(:'key');

\connect contrib_regression
DROP DATABASE idem_euc_jp;
DROP DATABASE idem_sql_ascii;
DROP DATABASE idem_latin1;
