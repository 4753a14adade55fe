INSERT INTO pgmq_queue (vt, message, headers) VALUES (clock_timestamp(), '{"order": 17, "state": "paid"}', NULL) RETURNING msg_id;
