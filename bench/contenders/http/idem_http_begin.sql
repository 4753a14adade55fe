SELECT * FROM idem_http_begin('POST', '/orders', :key, '{"customer": 4711, "amount": "129.90", "currency": "EUR"}');
