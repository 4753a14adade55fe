import type { NextFunction, Request, RequestHandler, Response } from 'express';
import type { Duration, Exchange, LeasedWork, Options, Transaction } from './index';

declare global {
    namespace Express {
        interface Request {
            /** Undefined if the middleware does not handle the request. In a wrapped handler it is set. */
            idem?: Exchange;
        }
    }
}

/** A handler that is wrapped: its `req.idem` is set. */
export type Handler<Work> = (req: Omit<Request, 'idem'> & { idem: Work }, res: Response, next: NextFunction) => unknown;

/** Wraps handlers, which run one after another, or a Router. */
export type Idempotent<Work> = (...handlers: (Handler<Work> | Handler<Work>[])[]) => RequestHandler;

/** Makes a function that wraps handlers or a Router: `app.post('/orders', idempotent(handler))`, `app.use('/api', idempotent(router))`. */
export function idempotency<Client = any>(options: Options<Request, Client> & { lease: Duration }): Idempotent<LeasedWork<Client>>;
export function idempotency<Client = any>(options: Options<Request, Client> & { lease?: undefined }): Idempotent<Transaction<Client>>;

/** For body parsers that run before the wrapped handler: `express.json({ verify: keepRawBody })`. */
export function keepRawBody(req: any, res: any, bytes: Buffer): void;
