--- idem_begin.sql
BEGIN;
SELECT * FROM idem_begin(:key, idem_fingerprint_bytes(convert_to('POST /orders', 'UTF8') || '\x00' || convert_to('{"customer": ' || :key || ', "amount": "129.90", "currency": "EUR"}', 'UTF8')), scope => 'bench');
COMMIT;

--- idem_http_begin.sql
BEGIN;
SELECT * FROM idem_http_begin('bench', 'POST', '/orders', :key, '{"customer": ' || :key || ', "amount": "129.90", "currency": "EUR"}');
COMMIT;
