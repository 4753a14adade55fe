SELECT * FROM idem_begin(:key, idem_fingerprint_bytes('POST /orders {"customer": 4711, "amount": "129.90", "currency": "EUR"}'));
