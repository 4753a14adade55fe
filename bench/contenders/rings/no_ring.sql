SELECT idem_claim(md5(:n)::uuid::text);
