BEGIN;
SELECT * FROM idem_begin(:key, idem_fingerprint_bytes(convert_to('POST /orders', 'UTF8') || '\x00' || convert_to('{"customer": ' || :key || ', "amount": "129.90", "currency": "EUR"}', 'UTF8')), scope => 'bench');
COMMIT;
