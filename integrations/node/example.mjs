import express from 'express';
import pg from 'pg';
import { idempotency } from 'idem-postgres/express';

const clients = new Map([['Bearer s3cret', 'client 17']]); // your authentication goes here
const clientOf = (req) => clients.get(req.get('Authorization'));
const database = new pg.Pool().on('error', console.error); // without a listener, a lost connection ends the process
const idempotent = idempotency({ database, scope: clientOf });

const api = express.Router().use(express.json());
api.post('/orders', async (req, res) => { // req.idem.client is in the transaction that claims the key
    const { rows: [order] } = await req.idem.client.query('INSERT INTO orders (item) VALUES ($1) RETURNING id, item', [req.body.item]);
    res.status(201).json(order); // sent after COMMIT
});

const app = express().use((req, res, next) => (clientOf(req) ? next() : res.sendStatus(401)));
app.use(idempotent(api)).listen(process.env.PORT ?? 3000);
