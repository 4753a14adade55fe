// A webhook endpoint: POST /webhooks/SOURCE. Each webhook is credited once, however often it is delivered.
//
// libpq's environment (PGHOST, PGUSER ...) names the database; its tables are those of shop.sql.
// usage: node endpoint.js PORT
import http from 'node:http';
import pg from 'pg';

const largest = 4 << 20;
const pool = new pg.Pool({ max: 8 });
// A connection that breaks fails the query that uses it; nothing else is to be done.
pool.on('error', () => {});
pool.on('connect', (db) => db.on('error', () => {}));

// The claim of the webhook and its effect are one transaction.
async function receive(source, headers, body) {
    const db = await pool.connect();
    let failure;
    try {
        await db.query('BEGIN');
        const { rows: [{ outcome }] } = await db.query('SELECT * FROM idem.idem_webhook_receive($1, $2, $3)', [source, headers, body]);
        if (outcome === 'accepted') {
            const { id, amount } = JSON.parse(body);
            await db.query('INSERT INTO credit (event, amount) VALUES ($1, $2)', [id, amount]);
        }
        await db.query('COMMIT');
        return outcome;
    } catch (error) {
        failure = error;
        throw error;
    } finally {
        db.release(failure); // after a failure the connection is closed, and that rolls back
    }
}

// The bytes as they came: what a framework has parsed cannot be verified.
async function bytes(request) {
    const chunks = [];
    let size = 0;
    for await (const chunk of request) {
        size += chunk.length;
        if (size > largest) throw new Error('too large');
        chunks.push(chunk);
    }
    return Buffer.concat(chunks);
}

http.createServer(async (request, response) => {
    const [, source] = request.url.match(/^\/webhooks\/([\w-]+)$/) ?? [];
    if (request.method !== 'POST' || !source) return response.writeHead(404).end();
    try {
        const outcome = await receive(source, request.headers, await bytes(request));
        // The sender comes again unless the answer is 2xx.
        response.writeHead(outcome === 'accepted' || outcome === 'duplicate' ? 200 : 401).end(outcome);
    } catch { // committed or not, nobody knows: the next delivery is a duplicate, or new
        response.writeHead(503).end();
    }
}).listen(Number(process.argv[2]), '127.0.0.1');
