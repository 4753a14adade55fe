SELECT idem_consume('github', :key::text);
