-- What an application keeps that checks the signature itself.
CREATE TABLE received_webhooks (
    source text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    received_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (source, id)
);
