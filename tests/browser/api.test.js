// Attacks on the API of the checkout, without a browser: signed requests that are replayed, shifted, reordered or changed, and a flood.
// SHOP_URL is a shop that was started with --test; PARTNER_SECRET the secret of the key id "partner".
import assert from 'node:assert/strict';
import { createHmac, randomUUID } from 'node:crypto';
import http from 'node:http';
import { test } from 'node:test';
import { initialStock, shop, totals } from './shop.js';

const secret = process.env.PARTNER_SECRET ?? '';
const order = { quantity: 1, note: 'from a partner', gateway: 'normal' };
const nowMicros = () => Date.now() * 1000;

// What is signed, as docs/requests.md has it: names sorted, no white space.
function canonical(value) {
    if (Array.isArray(value)) return `[${value.map(canonical)}]`;
    if (value === null || typeof value !== 'object') return JSON.stringify(value);
    return `{${Object.keys(value).sort().map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`)}}`;
}

function sign(params, { keyId = 'partner', at = nowMicros(), nonce = randomUUID() } = {}) {
    const message = canonical(['idem1', keyId, at, nonce, params]);
    return {
        'Content-Type': 'application/json',
        'X-Key-Id': keyId,
        'X-Signed-At': String(at),
        'X-Nonce': nonce,
        'X-Signature': createHmac('sha256', secret).update(message).digest('hex'),
    };
}

async function send(headers, body) {
    const reply = await fetch(`${shop}/api/signed/orders`, { method: 'POST', headers, body: typeof body === 'string' ? body : JSON.stringify(body) });
    const answer = await reply.json();
    return `${reply.status} ${answer.code ?? answer.status}`;
}

async function begin() {
    const reset = await fetch(`${shop}/api/reset?stock=${initialStock}`, { method: 'POST' });
    assert.equal(reset.status, 204);
}

const orders = async () => (await totals('key')).orders;

test('a genuine request makes one order', async () => {
    await begin();
    assert.equal(await send(sign(order), order), '201 reserved');
    assert.equal(await orders(), 1);
});

test('a replayed nonce, again and at the same time', async () => {
    await begin();
    const headers = sign(order);
    const said = await Promise.all(Array.from({ length: 10 }, () => send(headers, order)));
    assert.deepEqual(said.sort(), ['201 reserved', ...Array(9).fill('409 replayed')]);
    assert.equal(await send(headers, order), '409 replayed');
    assert.equal(await send(sign({ ...order, quantity: 2 }, { nonce: headers['X-Nonce'] }), { ...order, quantity: 2 }), '409 replayed');
    assert.equal(await orders(), 1);
});

test('a shifted clock', async () => {
    await begin();
    assert.equal(await send(sign(order, { at: nowMicros() - 301_000_000 }), order), '401 stale');
    assert.equal(await send(sign(order, { at: nowMicros() + 301_000_000 }), order), '401 stale');
    assert.equal(await send({ ...sign(order), 'X-Signed-At': String(nowMicros() + 1) }, order), '401 invalid');
    for (const at of ['', '-1', 'now', '9'.repeat(30), '1e15']) assert.equal(await send({ ...sign(order), 'X-Signed-At': at }, order), '401 invalid', at);
    assert.equal(await orders(), 0);
});

test('reordered parameters are the same request, duplicated ones are none', async () => {
    await begin();
    const headers = sign(order);
    assert.equal(await send(headers, '{"note": "from a partner", "gateway": "normal", "quantity": 1}'), '201 reserved');
    assert.equal(await send(headers, order), '409 replayed');
    assert.match(await send(sign(order), '{"quantity": 5, "quantity": 1, "note": "from a partner", "gateway": "normal"}'), /^40[01] /);
    assert.match(await send(sign(order), '{"quantity": 1, "quantity": 5, "note": "from a partner", "gateway": "normal"}'), /^40[01] /);
    assert.equal(await orders(), 1);
});

test('a changed body', async () => {
    await begin();
    for (const body of [{ ...order, quantity: 5 }, { ...order, quantity: '1' }, { ...order, admin: true }, { quantity: 1 }])
        assert.equal(await send(sign(order), body), '401 invalid', JSON.stringify(body));
    for (const body of ['', '[]', '1', '{', '"x"']) assert.match(await send(sign(order), body), /^40[01] /, body);
    assert.equal(await orders(), 0);
});

test('an unknown key id, and none', async () => {
    await begin();
    for (const keyId of ['stranger', '', "partner'--", 'k'.repeat(5000)]) assert.equal(await send(sign(order, { keyId }), order), '401 invalid', keyId.slice(0, 20));
    assert.equal(await send({ ...sign(order), 'X-Signature': '0'.repeat(64) }, order), '401 invalid');
    assert.equal(await send({ 'Content-Type': 'application/json' }, order), '401 invalid');
    assert.equal(await orders(), 0);
});

test('a hundred times the rate from sixteen connections: never more than allowed', async () => {
    await begin();
    const [rate, burst, connections] = [20, 40, 16];
    const visitor = randomUUID().replaceAll('-', '');
    const ask = (agent) =>
        new Promise((resolve, reject) => {
            const headers = { 'Content-Type': 'application/json', Cookie: `visitor=${visitor}` }; // no key: let through, it is a 400
            const request = http.request(`${shop}/api/orders`, { method: 'POST', agent, headers }, (reply) => {
                reply.resume().on('end', () => resolve(reply));
            });
            request.on('error', reject).end('{}');
        });
    const said = {};
    const began = performance.now();
    await Promise.all(
        Array.from({ length: connections }, async () => {
            const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
            while (performance.now() - began < 3000) {
                const reply = await ask(agent);
                said[reply.statusCode] = (said[reply.statusCode] ?? 0) + 1;
                if (reply.statusCode === 429) assert.match(reply.headers['retry-after'], /^[1-9]\d*$/);
            }
            agent.destroy();
        }),
    );
    const allowed = burst + (rate * (performance.now() - began)) / 1000;
    assert.deepEqual(Object.keys(said), ['400', '429']);
    assert.ok(said[400] <= allowed, `${said[400]} were let through, of ${allowed} that may be`);
    assert.ok(said[400] >= burst, 'and the burst was');
    assert.ok(said[429] > said[400], 'there was a flood');
});
