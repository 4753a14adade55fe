-- Intervals are durations: a day is 24 h, a month 30 days, whatever the session's TimeZone.
\ir ../include/helpers.psql
SELECT plan(9);
CALL pg_temp.clean('duration:');
SET idem.max_lease = '1000d';

CREATE FUNCTION pg_temp.retention_of(ttl interval) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE
    key text := 'duration:' || current_setting('TimeZone') || ttl;
BEGIN
    PERFORM idem.idem_claim(key, ttl);
    RETURN (SELECT extract(epoch FROM expires_at) - extract(epoch FROM created_at) FROM idem.idem_lookup(key));
END $$;
CREATE FUNCTION pg_temp.lease_of(lease interval) RETURNS float8 LANGUAGE sql VOLATILE AS $$
    SELECT pg_temp.seconds_from_now(lease_until)
      FROM idem.idem_begin('duration:lease' || current_setting('TimeZone') || lease, lease => lease)
$$;

-- Calendar arithmetic would be off by an hour for some of these days, and by days for the months.
CREATE TEMP TABLE expected (ttl interval, seconds float8);
INSERT INTO expected
    SELECT make_interval(days => n), n * 86400 FROM generate_series(30, 330, 30) n
    UNION ALL SELECT make_interval(months => n), n * 30 * 86400 FROM generate_series(1, 13) n
    UNION ALL VALUES ('1 year 2 months 3 days 04:05:06.789'::interval, (14 * 30 + 3) * 86400 + 14706.789::float8),
                     ('1 month -1 day', 29 * 86400), ('1 month -29 days -23:59:59', 1), ('2 days -24:00', 86400);

CREATE FUNCTION pg_temp.wrong() RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT string_agg(format('%s is %s s', ttl, retention), ', ')
      FROM expected, pg_temp.retention_of(ttl) AS retention WHERE abs(retention - seconds) > 0.5
$$;
CREATE FUNCTION pg_temp.wrong_leases() RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT string_agg(format('%s is %s s', ttl, left_over), ', ')
      FROM expected, pg_temp.lease_of(ttl) AS left_over WHERE left_over - seconds NOT BETWEEN -5 AND 0.5
$$;

SET TimeZone = 'America/New_York';
SELECT is(pg_temp.wrong(), NULL, 'retention_across_daylight_saving_time');
SELECT is(pg_temp.wrong_leases(), NULL, 'lease_across_daylight_saving_time');
SET TimeZone = 'Australia/Lord_Howe';
SELECT is(pg_temp.wrong(), NULL, 'retention_on_the_southern_half');
SELECT is(pg_temp.wrong_leases(), NULL, 'lease_on_the_southern_half');
RESET TimeZone;
SELECT is(pg_temp.wrong(), NULL, 'retention_in_the_default_zone');

-- Not positive, after the same arithmetic.
SELECT is(
    (SELECT string_agg(format('%s: %s', duration, state), ', ')
       FROM unnest(ARRAY['0', '-1 us', '-1 day', '1 month -30 days', '1 day -24:00', '30 days -1 month -1 us', '-1 month 29 days']) duration,
            unnest(ARRAY['idem_claim(''duration:bad'', %L)', 'idem_begin(''duration:bad'', lease => %L)']) call,
            pg_temp.state_of('SELECT ' || format(call, duration)) AS state
      WHERE state <> '22023'),
    NULL, 'durations_that_are_not_positive');
SELECT is(
    (SELECT string_agg(format('%s: %s', duration, state), ', ')
       FROM unnest(ARRAY['1 us', '1 month -29 days', '-1 month 31 days', '-1 day 24:00:00.000001',
                         '106751992 days -2562047760 hours']) duration,
            unnest(ARRAY['idem_try_claim(''duration:tiny'', %L)', 'idem_begin(''duration:tiny lease'', lease => %L)']) call,
            pg_temp.state_of('SELECT ' || format(call, duration)) AS state
      WHERE state <> 'ok'),
    NULL, 'durations_that_are_positive_after_all');
SELECT is(
    (SELECT string_agg(format('%s: %s', duration, state), ', ')
       FROM unnest(ARRAY['178000000 years', '-178000000 years', '300000 years', '296540 years', '2147483647 days', '2562047788 hours',
                         '178956970 years 2147483647 days 2562047788 hours']) duration,
            unnest(ARRAY['idem_claim(''duration:huge'', %L)', 'idem_begin(''duration:huge'', lease => %L)', 'idem_hit(''duration:huge'', %L)',
                         'idem_scope_set(''duration:huge'', ttl => %L)', 'idem_scope_set(''duration:huge'', lease => %L)']) call,
            pg_temp.state_of('SELECT ' || format(call, duration)) AS state
      WHERE state NOT IN ('22023', '22008') AND call NOT LIKE 'idem_scope_set%' OR state LIKE 'XX%'),
    NULL, 'durations_beyond_the_calendar_are_refused');
SELECT is((SELECT count(*) FROM idem_lookup('duration:huge')), 0::bigint, 'and_claim_nothing');

CALL pg_temp.clean('duration:');
SELECT * FROM finish();
