PERFORM FROM idem_begin('request ' || n);
PERFORM idem_complete('request ' || n, jsonb_build_object('id', n), 201);
