-- The command tag (INSERT 0 1 or INSERT 0 0) is the answer.
INSERT INTO received_webhooks (source, id) VALUES ('github', :key) ON CONFLICT DO NOTHING;
