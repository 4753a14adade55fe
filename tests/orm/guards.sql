SELECT count(*) FROM idem.idem_guards WHERE target = to_regclass('public.orders') AND is_enabled
