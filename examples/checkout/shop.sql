-- The shop's own tables. What keeps an order from being made twice is not in here but in schemes/: that is all that they
-- differ in. REQUIRES: the extension idem in the search_path. Run it again to start over.
DROP SCHEMA IF EXISTS checkout CASCADE;
SELECT idem_machine_drop('checkout_order') WHERE EXISTS (SELECT FROM idem_machines WHERE name = 'checkout_order');

CREATE SCHEMA checkout;

-- Each scheme sells from a shelf of its own. The version is there for the optimistic one.
CREATE TABLE checkout.stock (
    scheme   text PRIMARY KEY,
    quantity int NOT NULL CHECK (quantity >= 0),
    initial  int NOT NULL
);
SELECT optimistic_enable('checkout.stock');

CREATE TABLE checkout.orders (
    id          bigint PRIMARY KEY,                                       -- of idem_next_id
    scheme      text NOT NULL,
    visitor     text NOT NULL,
    ref         text,                                                     -- the token, key, version … it was made with
    quantity    int NOT NULL DEFAULT 1 CHECK (quantity BETWEEN 1 AND 5),
    amount      int GENERATED ALWAYS AS (quantity * 2500) STORED,         -- in cents
    note        text NOT NULL DEFAULT '',
    status      text NOT NULL,
    gateway     jsonb NOT NULL DEFAULT '{}',                              -- how the gateway is to misbehave
    reserved_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    hold_ms     int NOT NULL DEFAULT 30000,                               -- how long the stock is kept for it
    asked       boolean NOT NULL DEFAULT false,                           -- the gateway knows of it
    settled     boolean NOT NULL DEFAULT false,                           -- and of its end
    next_try_at timestamptz NOT NULL DEFAULT clock_timestamp()            -- when the cashier looks at it again
);
CREATE INDEX ON checkout.orders (scheme, ref);
CREATE INDEX ON checkout.orders (next_try_at) WHERE status IN ('reserved', 'released');
CREATE UNIQUE INDEX one_cart ON checkout.orders (visitor) WHERE status = 'cart';

-- What was paid, as the shop's books have it.
CREATE TABLE checkout.bookings (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    order_id   bigint NOT NULL REFERENCES checkout.orders,
    message_id text NOT NULL,                                             -- the gateway's message that said so
    amount     int NOT NULL
);
CREATE INDEX ON checkout.bookings (order_id);

-- A hold that lapses is `released`; had the gateway charged it all the same, the charge is taken back.
SELECT idem_machine_define('checkout_order', '{
    "initial": ["cart", "reserved"],
    "transitions": {
        "cart":     ["reserved"],
        "reserved": ["paid", "declined", "released"],
        "released": ["refunded"]
    }}');
SELECT idem_machine_attach('checkout.orders', 'status', 'checkout_order');
