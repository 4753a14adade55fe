PERFORM FROM idem_execute('executed ' || n, 'SELECT $1::bigint AS id', jsonb_build_array(n::text));
