-- The columns and the index of idem_counters.
CREATE TABLE hits_by_hand (
    expires_at timestamptz NOT NULL,
    hits bigint NOT NULL,
    scope text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    PRIMARY KEY (scope, key)
) WITH (fillfactor = 70);
