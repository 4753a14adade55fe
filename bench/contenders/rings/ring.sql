-- Scope "f" is in the full ring.
SELECT idem_claim(md5(:n)::uuid::text, scope => 'f');
