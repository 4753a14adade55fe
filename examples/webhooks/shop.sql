-- What the webhooks of this example do. No constraint keeps an event from being credited twice: that is what idem is for.
CREATE TABLE credit (
    event  text NOT NULL,
    amount integer NOT NULL
);
