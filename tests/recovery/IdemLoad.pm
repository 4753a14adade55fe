# A load that crash tests put on a server: clients that use every kind of function, each of which writes down what the server told
# it after the commit, and sometimes before; and what must be true afterwards of what was written down.
package IdemLoad;

use strict;
use warnings;

use Exporter 'import';
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

our @EXPORT = qw(prepare_load start_load is_loaded finish_load is_intact has_clean_relations kill_postmaster);

my $schema = <<'SQL';
CREATE EXTENSION IF NOT EXISTS idem;
CREATE EXTENSION IF NOT EXISTS amcheck;

-- What clients were told, by line.
CREATE TABLE told (round int, client int, line int, what text, key text, value text);
CREATE INDEX ON told (what, key);
CREATE TABLE effect (key text, note text);
CREATE INDEX ON effect (key);
CREATE TABLE stock (id int PRIMARY KEY, quantity int NOT NULL, initial int NOT NULL);
INSERT INTO stock VALUES (1, 1000000, 1000000), (2, 40, 40);
CREATE TABLE sale (stock int, key text);
CREATE INDEX ON sale (key);
CREATE TABLE hit (key text, n bigint);
CREATE TABLE document (id int PRIMARY KEY, body text, version bigint NOT NULL DEFAULT 1);
INSERT INTO document SELECT n FROM generate_series(1, 3) AS n;
SELECT optimistic_enable('document');
CREATE TABLE edit (id int, version bigint);
CREATE TABLE orders (id int PRIMARY KEY, state text NOT NULL);
SELECT idem_machine_define('order', '{"initial": ["created"], "transitions":
    {"created": ["paid", "cancelled"], "paid": ["shipped"], "shipped": ["paid"]}}');
SELECT idem_machine_attach('orders', 'state', 'order', true);
INSERT INTO orders SELECT n, 'created' FROM generate_series(1, 20) AS n;
CREATE TABLE once (id int PRIMARY KEY, who text);
CREATE TABLE guarded (id int, who text);
CREATE INDEX ON guarded (id);
SELECT idem_scope_set('manual', on_lease_expiry => 'manual');

-- Each of these is one transaction, whose answer is what the client writes down.
CREATE FUNCTION pay(key text, ttl interval) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    IF NOT idem_claim(key, ttl) THEN RETURN 'duplicate|' || key || '|'; END IF;
    INSERT INTO effect VALUES (key, 'claim');
    PERFORM idem_complete(key, to_jsonb(key), 201);
    RETURN 'paid|' || key || '|';
END $$;
CREATE FUNCTION pay_many(keys text[]) RETURNS SETOF text LANGUAGE sql AS $$
    WITH new AS (SELECT idem_claim_many(keys) AS key), noted AS (INSERT INTO effect SELECT key, 'many' FROM new RETURNING key)
    SELECT 'paid|' || key || '|' FROM noted
$$;
CREATE FUNCTION try_pay(key text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    ticket idem_ticket := idem_execute(key, 'INSERT INTO effect VALUES ($1, ''execute'') RETURNING key', jsonb_build_array(key));
BEGIN
    RETURN CASE ticket.outcome WHEN 'acquired' THEN 'paid' WHEN 'completed' THEN 'duplicate' ELSE 'nothing' END || '|' || key || '|';
END $$;
CREATE FUNCTION finish(key text, fence bigint) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO effect VALUES (key, 'leased');
    PERFORM idem_complete(key, to_jsonb(key), 200, fence);
    RETURN 'paid|' || key || '|';
END $$;
CREATE FUNCTION redeem(token text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    outcome text := idem_token_redeem(token, 'form');
BEGIN
    INSERT INTO effect SELECT token, 'token' WHERE outcome = 'accepted';
    RETURN 'token ' || outcome || '|' || token || '|';
END $$;
CREATE FUNCTION sell(id int, key text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    what text := (conditional_adjust('stock', jsonb_build_object('id', id), 'quantity', -1)).outcome;
BEGIN
    INSERT INTO sale SELECT id, key WHERE what = 'adjusted';
    RETURN CASE what WHEN 'adjusted' THEN 'sold|' || key ELSE 'nothing|' || id END || '|' || id;
END $$;
CREATE FUNCTION count_hit(key text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    n bigint := idem_hit(key);
BEGIN
    INSERT INTO hit VALUES (key, n);
    RETURN 'hit|' || key || '|' || n;
END $$;
CREATE FUNCTION edit_document(id int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    expected bigint := (SELECT d.version FROM document d WHERE d.id = edit_document.id);
    result record := optimistic_update('document', jsonb_build_object('id', id), expected, jsonb_build_object('body', expected));
BEGIN
    INSERT INTO edit SELECT id, result.version WHERE result.outcome = 'updated';
    RETURN CASE result.outcome WHEN 'updated' THEN 'edited|' ELSE 'nothing|' END || id || '|' || result.version;
END $$;
CREATE FUNCTION move_order(id int, to_state text) RETURNS text LANGUAGE sql AS $$
    SELECT CASE outcome WHEN 'moved' THEN 'moved|' ELSE 'nothing|' END || id || '|' || to_state
    FROM idem_transition('orders', jsonb_build_object('id', id), NULL, to_state)
$$;
CREATE FUNCTION write_under(name text, fence bigint) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    PERFORM idem_assert_fence(name, fence);
    INSERT INTO effect VALUES (name, fence);
    RETURN 'asserted|' || name || '|' || fence;
END $$;

-- What must be true, each a query that finds what is wrong. `told` names what the clients of all rounds so far were told.
CREATE TABLE invariant (name text, query text);
INSERT INTO invariant VALUES
('a key that was paid, or called a duplicate, has one effect',
 $$ SELECT key, (SELECT count(*) FROM effect e WHERE e.key = t.key) FROM told t
    WHERE what IN ('paid', 'duplicate') AND (SELECT count(*) FROM effect e WHERE e.key = t.key) <> 1 $$),
('nobody was told twice that he paid', $$ SELECT key FROM told WHERE what = 'paid' GROUP BY key HAVING count(*) > 1 $$),
('a key that was paid is a duplicate', $$ SELECT key FROM told WHERE what = 'paid' AND idem_try_claim(key) <> 'completed' $$),
('every effect has its claim, and every completed claim its effect',
 $$ SELECT key, e.note, k.state FROM (SELECT key, note FROM effect WHERE note IN ('claim', 'many', 'execute', 'leased')
      AND key NOT LIKE 'short%') e
    FULL JOIN (SELECT key, state FROM idem_keys WHERE state = 'c' AND scope = '' AND key NOT LIKE 'short%') k USING (key)
    WHERE e.key IS NULL OR k.key IS NULL $$),
('no effect is there twice', $$ SELECT key FROM effect WHERE note !~ '^\d+$' GROUP BY key HAVING count(*) > 1 $$),
('every lease is held by its fence, or completed',
 $$ SELECT t.key, t.value, k.state, k.fence FROM told t LEFT JOIN idem_keys k ON k.scope = '' AND k.key = t.key
    WHERE what = 'leased' AND NOT coalesce(k.state IN ('p', 'c') AND k.fence = t.value::bigint, false) $$),
('no fence was given out twice',
 $$ SELECT value, string_agg(format('%s %s, client %s in round %s, line %s', what, key, client, round, line), '; ' ORDER BY round, client, line)
    FROM told WHERE what IN ('leased', 'locked', 'drawn') GROUP BY value HAVING count(*) > 1 $$),
('the next fence is greater than all', $$ SELECT fence FROM (SELECT (idem_begin('next ' || gen_random_uuid(), lease => '1 ms', scope => 'next')).fence OFFSET 0) f
    WHERE fence <= (SELECT max(value::bigint) FROM told WHERE what IN ('leased', 'locked', 'drawn')) $$),
('fences of a client grow', $$ SELECT * FROM (SELECT value::bigint AS fence, lag(value::bigint) OVER (PARTITION BY round, client ORDER BY line) AS before
    FROM told WHERE what IN ('leased', 'locked', 'drawn')) f WHERE fence <= before $$),
('no number was given out twice', $$ SELECT value FROM told WHERE what = 'number' GROUP BY value HAVING count(*) > 1 $$),
('the next number is greater than all', $$ SELECT id FROM idem_next_id() AS id WHERE id <= (SELECT max(value::bigint) FROM told WHERE what = 'number') $$),
('numbers and fences of a round are greater than those of the rounds before',
 $$ SELECT what, round FROM (SELECT CASE what WHEN 'number' THEN what ELSE 'fence' END AS what, round, min(value::bigint) AS least,
      max(max(value::bigint)) OVER (PARTITION BY CASE what WHEN 'number' THEN what ELSE 'fence' END ORDER BY round
                                    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
    FROM told WHERE what IN ('number', 'leased', 'locked', 'drawn') GROUP BY 1, 2) r WHERE least <= before $$),
('a lock that was taken is held by its fence',
 $$ SELECT t.key FROM told t WHERE what = 'locked' AND key LIKE 'own %' AND NOT idem_lock_renew(key, value::bigint, '1 d') $$),
('a token that was redeemed is a duplicate',
 $$ SELECT key FROM told WHERE what IN ('token accepted', 'token duplicate') AND idem_token_redeem(key, 'form') <> 'duplicate' $$),
('and was accepted once', $$ SELECT key FROM told WHERE what = 'token accepted' GROUP BY key HAVING count(*) > 1
    UNION ALL SELECT key FROM told WHERE what = 'token accepted' AND (SELECT count(*) FROM effect e WHERE e.key = told.key) <> 1 $$),
('a token that was issued is good, or redeemed',
 $$ SELECT key FROM told WHERE what = 'issued' AND idem_token_redeem(key, 'form')
      <> CASE WHEN EXISTS (SELECT FROM effect e WHERE e.key = told.key) THEN 'duplicate' ELSE 'accepted' END::idem_token_outcome $$),
('no token is called invalid', $$ SELECT key FROM told WHERE what = 'token invalid' $$),
('stock equals sold', $$ SELECT id FROM stock WHERE quantity < 0 OR quantity + (SELECT count(*) FROM sale WHERE stock = id) <> initial $$),
('what was sold is noted, once', $$ SELECT key FROM told WHERE what = 'sold' AND (SELECT count(*) FROM sale s WHERE s.key = told.key) <> 1 $$),
('every hit was counted, once', $$ SELECT h.key FROM (SELECT key, count(*) AS n, count(DISTINCT n) AS different, max(n) AS greatest FROM hit GROUP BY key) h
    JOIN idem_counters c ON c.scope = '' AND c.key = h.key WHERE NOT (h.n = different AND h.n = greatest AND h.n = c.hits) $$),
('no hit is missing', $$ SELECT key, value FROM told WHERE what = 'hit' AND (key, value::bigint) NOT IN (SELECT key, n FROM hit) $$),
('every edit has its version', $$ SELECT d.id FROM document d WHERE version <> 1 + (SELECT count(DISTINCT e.version) FROM edit e WHERE e.id = d.id)
    OR version <> 1 + (SELECT count(*) FROM edit e WHERE e.id = d.id) $$),
('no edit is missing', $$ SELECT key, value FROM told WHERE what = 'edited' AND (key::int, value::bigint) NOT IN (SELECT id, version FROM edit) $$),
('the log of each order leads to its state, by transitions that the machine has',
 $$ SELECT id FROM (SELECT (key ->> 'id')::int AS id, from_state, to_state, at, lag(to_state) OVER w AS before, lead(at) OVER w AS next
      FROM idem_transition_log WHERE target = 'public.orders' OR target = 'orders' WINDOW w AS (PARTITION BY key ORDER BY at)) l JOIN orders o USING (id)
    WHERE from_state IS DISTINCT FROM before OR (next IS NULL AND to_state <> o.state)
      OR from_state IS NOT NULL AND NOT idem_can_transition('order', from_state, to_state) $$),
('every order has a log', $$ SELECT id FROM orders WHERE NOT EXISTS (SELECT FROM idem_transition_log WHERE key = jsonb_build_object('id', id)) $$),
('no move is missing', $$ SELECT key, value, count(*) FROM told WHERE what = 'moved' GROUP BY key, value
    HAVING count(*) > (SELECT count(*) FROM idem_transition_log l WHERE l.key = jsonb_build_object('id', told.key::int) AND to_state = value) $$),
('a row is there once', $$ SELECT id FROM guarded GROUP BY id HAVING count(*) > 1 $$),
('an inserted row is there', $$ SELECT what, key FROM told WHERE what = 'inserted' AND NOT EXISTS (SELECT FROM once WHERE id = key::int AND who = value)
    UNION ALL SELECT what, key FROM told WHERE what = 'guarded' AND NOT EXISTS (SELECT FROM guarded WHERE id = key::int AND who = value) $$),
('a key that is in doubt stays so', $$ SELECT key FROM told WHERE what = 'doubtful' AND idem_try_claim(key, scope => 'manual') <> 'in_doubt' $$),
('nothing is wrong with idem', $$ SELECT check_name, detail FROM idem_health() WHERE level <> 'ok' AND check_name IN
    ('version', 'tables', 'collation', 'wraparound', 'guards') $$);
SQL

sub prepare_load
{
    my ($node) = @_;
    $node->safe_psql('postgres', $schema);
    return;
}

# --- Clients ------------------------------------------------------------------------------------------------------------------

# Writes a line down if what came before it succeeded. When the server hangs up and psql learns of it by writing, it goes on for a
# command, and would echo what was never told, with the variables of an earlier answer.
sub note_down { my ($line) = @_; return "\\if :ERROR\n\\else\n\\echo $line\n\\endif\n" }

# A payment that is written down once it is committed. A transaction that failed ends without an error, and leaves `what` unset. A row
# after which the server hung up is printed instead of stored, and so is not to look like a line.
sub pay_and_commit
{
    my ($before, $key) = @_;
    return "\\unset what\nBEGIN;\n${before}SELECT split_part(pay('$key', NULL), '|', 1) AS what \\gset\nCOMMIT;\n" . note_down(":what|$key|");
}

# What one transaction of a client sends; `$own` is a name of its own, `$shared` one that others use, too.
my @kinds = (
    sub { my ($own, $shared) = @_; "SELECT pay('$shared', NULL);" },
    sub { my ($own) = @_; "SELECT pay('$own', NULL);" },
    sub { my ($own) = @_; "SELECT count(pay('short $own', '1 ms')) FROM generate_series(1, 1) \\g /dev/null" },
    sub { my ($own, $shared, $n) = @_; my $keys = join ', ', map { "'many " . ($n + $_) . "'" } 1 .. 12; "SELECT pay_many(ARRAY[$keys]);" },
    sub { my ($own, $shared) = @_; "SELECT try_pay('execute $shared');" },
    sub {
        my ($own, $shared, $n) = @_;
        my $lines = "SELECT fence FROM idem_begin('lease $own', lease => '1 d') \\gset\n" . note_down("leased|lease $own|:fence");
        $lines .= "SELECT idem_step('lease $own', :fence, 'half') \\g /dev/null\n" if $n % 2;
        $lines .= "SELECT finish('lease $own', :fence);" if $n % 3;
        return $lines;
    },
    # Fences and numbers that are told before the transaction ends, and in one that is rolled back.
    sub {
        my ($own, $shared, $n) = @_;
        my $end = $n % 2 ? 'ROLLBACK' : 'COMMIT';
        "BEGIN;\nSELECT 'drawn||' || fence FROM idem_begin('undone $own', lease => '1 ms', scope => 'other');\n"
          . "SELECT 'number||' || idem_next_id() FROM generate_series(1, 5);\n$end;";
    },
    sub { "SELECT 'number||' || idem_next_id() FROM generate_series(1, 20);" },
    sub { my ($own) = @_; "SELECT 'locked|own $own|' || idem_lock('own $own', '1 d');" },
    sub {
        my ($own, $shared, $n) = @_;
        my $name = 'lock ' . $n % 3;
        "SELECT coalesce(fence, 0) AS fence, fence IS NOT NULL AS held FROM idem_lock('$name', '100 ms', wait => '20 ms') AS fence \\gset\n\\if :ERROR\n\\elif :held\n"
          . "\\echo locked|$name|:fence\nSELECT write_under('$name', :fence);\nSELECT idem_unlock('$name', :fence) \\g /dev/null\n\\endif";
    },
    sub {
        my ($own, $shared, $n) = @_;
        "SELECT idem_token_issue('form') AS token \\gset\n" . note_down('issued|:token|')
          . ($n % 3 ? "SELECT redeem(:'token');\n" : '') . ($n % 3 == 1 ? "SELECT redeem(:'token');" : '');
    },
    sub { my ($own, $shared, $n) = @_; 'SELECT sell(' . ($n % 5 ? 1 : 2) . ", '$own');" },
    sub { my ($own, $shared, $n) = @_; "SELECT count_hit('page " . $n % 4 . "');" },
    sub { my ($own, $shared, $n) = @_; 'SELECT edit_document(' . (1 + $n % 3) . ');' },
    sub { my ($own, $shared, $n) = @_; 'SELECT move_order(' . (1 + $n % 20) . ", '" . (qw(paid shipped cancelled))[ $n % 3 ] . "');" },
    sub {
        my ($own, $shared, $n) = @_;
        "SELECT CASE outcome WHEN 'inserted' THEN 'inserted' ELSE 'nothing' END || '|$n|$own' FROM unique_insert('once', '{\"id\": $n, \"who\": \"$own\"}');";
    },
    sub {
        my ($own, $shared, $n) = @_;
        "SELECT CASE outcome WHEN 'inserted' THEN 'guarded' ELSE 'nothing' END || '|$n|$own' FROM guarded_insert('guarded', '{\"id\": $n, \"who\": \"$own\"}', '{id}');";
    },
    sub {
        my ($own) = @_;
        "SELECT idem_begin('doubtful $own', lease => '1 ms', scope => 'manual') \\g /dev/null\n\\! sleep 0.002\n"
          . "SELECT CASE idem_try_claim('doubtful $own', scope => 'manual') WHEN 'in_doubt' THEN 'doubtful' ELSE 'nothing' END || '|doubtful $own|';";
    },
    sub { my ($own) = @_; pay_and_commit("SELECT idem_serialize('queue');\n", "queued $own") },
    # A claim in a subtransaction that is rolled back, then again; told when it is committed.
    sub {
        my ($own) = @_;
        pay_and_commit("SAVEPOINT a;\nSELECT pay('again $own', NULL) \\g /dev/null\nROLLBACK TO a;\n", "again $own");
    },
    sub { 'CALL idem_sweep();' },);

my $transactions = 4000;

sub script
{
    my ($round, $client, $checkpoints) = @_;
    my @lines;
    foreach my $n (1 .. $transactions)
    {
        # All clients walk through the same shared names, roughly together.
        my $kind = $n % 199 == 0 ? $kinds[-1] : $kinds[ int rand $#kinds ];
        push @lines, $kind->("$round-$client-$n", "shared $round-" . int($n / 3), $round * 10000 + int($n / 3));
        push @lines, 'CHECKPOINT;' if $checkpoints && rand() < 0.002;
    }
    return join "\n", @lines, '';
}

# Starts the clients of a round; they go on until they are through or the server is gone. Options: checkpoints (0: they ask for none).
sub start_load
{
    my ($node, $round, $clients, %options) = @_;
    my $dir = PostgreSQL::Test::Utils::tempdir();
    my $load = { round => $round, dir => $dir, clients => $clients, handles => [] };
    foreach my $client (1 .. $clients)
    {
        append_to_file("$dir/$client.sql", script($round, $client, $options{checkpoints} // 1));
        push @{ $load->{handles} },
          IPC::Run::start(
            [ 'stdbuf', '-oL', 'psql', '-XAtq', '-v', 'VERBOSITY=verbose', '-d', $node->connstr('postgres'), '-f', "$dir/$client.sql" ],
            '>', "$dir/$client.out", '2>', "$dir/$client.err");
    }
    return $load;
}

sub lines_told
{
    my ($load) = @_;
    my @told;
    foreach my $client (1 .. $load->{clients})
    {
        my $line = 0;
        # A last line without its end is a line all the same: the server had answered.
        push @told, map { $line++; /^([a-z ]+)\|([^|]*)\|([^|]*)$/ ? join("\t", $load->{round}, $client, $line, $1, $2, $3) : () }
          split /\n/, slurp_file("$load->{dir}/$client.out");
    }
    return @told;
}

# Waits until that many lines were written down.
sub is_loaded
{
    my ($load, $lines) = @_;
    my $deadline = time + $PostgreSQL::Test::Utils::timeout_default;
    until (lines_told($load) >= $lines)
    {
        return 0 if time > $deadline;
        usleep(20_000);
    }
    return 1;
}

# Waits for the clients' ends, and gives what they were told and the errors that a load must not meet.
sub finish_load
{
    my ($load) = @_;
    $_->finish foreach @{ $load->{handles} };
    my @errors;
    foreach my $client (1 .. $load->{clients})
    {
        # A deadlock and a lapsed lock are part of life, as is the server's end.
        push @errors, grep { /ERROR:|PANIC:/ && !/ERROR:  (40P01|40001|ID001|57P0\d)/ } split /\n/, slurp_file("$load->{dir}/$client.err");
    }
    return { lines => [ lines_told($load) ], errors => \@errors };
}

# --- Afterwards -----------------------------------------------------------------------------------------------------------------

# Loads what was told, and tests that all of it is still true. REQUIRES: nobody else is at work.
sub is_intact
{
    my ($node, $told, $name) = @_;
    is_deeply($told->{errors}, [], "$name: clients met no error of their own");
    my $file = PostgreSQL::Test::Utils::tempdir() . '/told';
    append_to_file($file, join('', map { "$_\n" } @{ $told->{lines} }));
    my $wrong = $node->safe_psql('postgres', <<SQL);
\\copy told FROM '$file'
SET work_mem = '100MB';
SET jit = off;
CREATE TEMP TABLE wrong (name text, what text);
DO \$\$
DECLARE
    i record;
BEGIN
    ANALYZE told, effect, sale, hit, edit, idem_keys;
    -- What the queries try is undone.
    FOR i IN SELECT * FROM invariant LOOP
        DECLARE
            found text[];
        BEGIN
            EXECUTE 'SELECT array_agg(w::text) FROM (' || i.query || ' LIMIT 5) w' INTO found;
            RAISE EXCEPTION USING errcode = 'ZZ999';
        EXCEPTION WHEN SQLSTATE 'ZZ999' THEN
            INSERT INTO wrong SELECT i.name, unnest(found);
        END;
    END LOOP;
END \$\$;
SELECT name || ': ' || what FROM wrong;
SQL
    is($wrong, '', "$name: what clients were told is true");
    return;
}

# Tables and indexes, and their agreement with each other, in every detail.
sub has_clean_relations
{
    my ($node, $name, @options) = @_;
    my $out = '';
    my $result = IPC::Run::run(
        [ 'pg_amcheck', '--heapallindexed', '--rootdescend', '-s', 'public', @options, '-h', $node->host, '-p', $node->port, '-d', 'postgres' ],
        '>', \$out, '2>&1');
    ok($result && $out eq '', "$name: pg_amcheck finds nothing") or diag($out);
    return;
}

# SIGKILL to the postmaster; its children see that it is gone, but not at once, and until then the data directory is theirs.
sub kill_postmaster
{
    my ($node, %options) = @_;
    my ($postmaster) = split /\n/, slurp_file($node->data_dir . '/postmaster.pid');
    kill 'STOP', $postmaster; # no more children
    my @children = split ' ', `ps -o pid= --ppid $postmaster`;
    kill 'KILL', @children if $options{all};
    $node->kill9;
    foreach (1 .. 600)
    {
        last unless grep { kill(0, $_) && !is_zombie($_) } @children;
        usleep(50_000);
    }
    # The postmaster itself can linger as a zombie where nobody collects orphans, and would be taken for alive.
    unlink $node->data_dir . '/postmaster.pid', $node->host . '/.s.PGSQL.' . $node->port . '.lock';
    return;
}

sub is_zombie
{
    my ($pid) = @_;
    open my $file, '<', "/proc/$pid/stat" or return 1;
    return <$file> =~ /\) Z /;
}

1;
