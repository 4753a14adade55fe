SELECT idem_token_redeem((SELECT token FROM prepared_tokens WHERE id = :id), 'session 4711');
