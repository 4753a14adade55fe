-- A table with a state machine.
CREATE TABLE tickets (id int PRIMARY KEY, state text NOT NULL);
INSERT INTO tickets VALUES (1, 'open');
SELECT idem.idem_machine_define('ticket', '{"initial": ["open"], "transitions": {"open": ["closed"]}}');
SELECT idem.idem_machine_attach('tickets', 'state', 'ticket');
