// Payment requests that come once, twice or three times at once, and a gateway that times out: each is paid once.
//
// libpq's environment (PGHOST, PGUSER ...) names the database; its tables are those of examples/payments.sql.
// usage: node main.js [REQUESTS]
import pg from 'pg';

const requests = Number(process.argv[2] ?? 100), workers = 8;
const counts = { run: 0, replayed: 0, refused: 0, 'in flight': 0, 'timed out': 0, retried: 0, applied: 0, 'seen before': 0 };

// A bank behind a bad line. It charges once per reference, as real ones do; of every tenth the first answer is lost.
const charges = new Map();
async function charge(reference, amount) {
    await new Promise((resolve) => setTimeout(resolve, 5));
    const first = !charges.has(reference);
    if (first) charges.set(reference, `ch_${charges.size + 1}`);
    if (first && reference.endsWith('0')) throw new Error('timeout');
    return charges.get(reference);
}

async function transaction(db, work) {
    await db.query('BEGIN');
    try {
        const result = await work();
        await db.query('COMMIT');
        return result;
    } catch (error) {
        await db.query('ROLLBACK');
        throw error;
    }
}

// What a server does with a request: returns status and body.
async function handle(db, request, amount, wait) {
    const { rows: [ticket] } = await db.query(
        `SELECT outcome, fence, status_code, response
         FROM idem.idem_begin($1, idem.idem_fingerprint($2), lease => '30 s', wait => $3, scope => 'pay')`,
        [request, { amount }, wait]);
    switch (ticket.outcome) {
    case 'completed': // its payment has committed: the same answer as then
        counts.replayed++;
        return [ticket.status_code, ticket.response];
    case 'in_flight':
        counts['in flight']++;
        return [409, { error: 'somebody is at it' }];
    case 'mismatch':
        counts.refused++;
        return [422, { error: 'this key was used for another request' }];
    }
    // Acquired or taken over: ours, and everybody can see that while the gateway takes its time.
    let charged;
    try {
        charged = await charge(request, amount);
    } catch { // did it charge? it will tell by the reference, when the client comes again
        counts['timed out']++;
        await db.query(`SELECT idem.idem_release($1, $2, scope => 'pay')`, [request, ticket.fence]);
        return [503, { error: 'the gateway did not answer' }];
    }
    return transaction(db, async () => { // the payment and the answer about it: both or neither
        const { rows: [{ id }] } = await db.query('INSERT INTO payment (request, amount, charge) VALUES ($1, $2, $3) RETURNING id',
            [request, amount, charged]);
        const body = { payment: Number(id), charge: charged }; // pg gives a bigint as a string
        await db.query(`SELECT idem.idem_complete($1, $2, 201, $3, scope => 'pay')`, [request, body, ticket.fence]);
        counts.run++;
        return [201, body];
    });
}

// What a client does: comes again until it is told how it ended.
async function deliver(db, request, delivery, amount) {
    for (let wait = '0'; ; wait = '1 s') {
        const [status, body] = await handle(db, request, amount, wait);
        if (status !== 409 && status !== 503)
            return db.query('INSERT INTO answer VALUES ($1, $2, $3, $4)', [request, delivery, status, body]);
        counts.retried++;
    }
}

// A batch from a broker that delivers at least once: what is new is applied, in the transaction that claims it.
async function receive(db, messages) {
    const applied = await transaction(db, async () => {
        const { rows } = await db.query(`SELECT * FROM idem.idem_claim_many($1, scope => 'mail') AS message`, [messages]);
        await db.query('INSERT INTO receipt SELECT unnest($1::text[])', [rows.map((row) => row.message)]);
        return rows.length;
    });
    counts.applied += applied;
    counts['seen before'] += messages.length - applied;
}

const names = Array.from({ length: requests }, (_, number) => `request ${number + 1}`);
const jobs = [];
names.forEach((name, number) => { // next to each other, so that several workers have the same one at the same time
    for (let delivery = 0; delivery <= number % 3; delivery++) jobs.push((db) => deliver(db, name, delivery, 100 + number));
});
jobs.push((db) => deliver(db, names[0], 99, 1)); // the same key, another amount
for (let start = 0; start < requests; start += 10) jobs.push((db) => receive(db, names.slice(start, start + 20))); // batches that overlap

await Promise.all(Array.from({ length: workers }, async () => {
    const db = new pg.Client();
    await db.connect();
    for (let job; (job = jobs.shift());) await job(db);
    await db.end();
}));
console.log(Object.entries(counts).map(([what, number]) => `${number} ${what}`).join(', '));
