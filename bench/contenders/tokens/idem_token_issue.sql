SELECT idem_token_issue('session 4711');
