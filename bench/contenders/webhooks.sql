--- schema.sql
-- What an application keeps that checks the signature itself.
CREATE TABLE received_webhooks (
    source text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    received_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (source, id)
);

--- idem_consume.sql
SELECT idem_consume('github', :key::text);

--- idem_webhook_receive.sql
SELECT outcome, message_id FROM idem_webhook_receive('github', ('{"X-GitHub-Event": "push", "Content-Type": "application/json", "User-Agent": "hookshot/044aadd", "X-Hub-Signature-256": "sha256=db9c55d238da43644b14ca1389b9b46be981389c829d20f02ea808ae446df0f9", "X-GitHub-Delivery": "' || :key || '"}')::jsonb, '{"ref": "refs/heads/main", "repository": {"full_name": "shop/orders", "private": true}, "pusher": {"name": "alice"}, "head_commit": {"id": "9f4f1c7b0e2a5d7f6c3b1a8e4d2f0c9b7a6e5d4c", "message": "Charge the card once", "timestamp": "2026-11-24T03:44:44Z"}, "forced": false}'::bytea);

--- unique_index.sql
-- The command tag (INSERT 0 1 or INSERT 0 0) is the answer.
INSERT INTO received_webhooks (source, id) VALUES ('github', :key) ON CONFLICT DO NOTHING;
