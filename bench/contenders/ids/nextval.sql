SELECT nextval('plain_ids');
