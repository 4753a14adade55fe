BEGIN;
SELECT * FROM idem_http_begin('bench', 'POST', '/orders', :key, '{"customer": ' || :key || ', "amount": "129.90", "currency": "EUR"}');
COMMIT;
