import express from 'express';
import pg from 'pg';
import { idempotency } from 'idem-postgres/express';

const clients = { 'Bearer s3cret': 'client 17' }; // the place of your authentication
const idempotent = idempotency({ database: new pg.Pool(), scope: (req) => clients[req.get('Authorization')] });

const api = express.Router();
api.use(express.json());
api.post('/orders', async (req, res) => { // req.idem.client is in the transaction that claims the key
    const { rows: [order] } = await req.idem.client.query('INSERT INTO orders (item) VALUES ($1) RETURNING id, item', [req.body.item]);
    res.status(201).json(order); // sent after COMMIT
});

express().use(idempotent(api)).listen(process.env.PORT ?? 3000);
