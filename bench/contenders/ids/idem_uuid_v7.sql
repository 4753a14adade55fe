SELECT idem_uuid_v7();
