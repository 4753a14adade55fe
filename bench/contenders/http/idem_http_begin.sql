BEGIN;
SELECT * FROM idem_http_begin('POST', '/orders', :key, convert_to('{"customer": ' || :key || ', "amount": "129.90", "currency": "EUR"}', 'UTF8'));
COMMIT;
