import type { Request } from 'express';
import type { Options, Transaction, LeasedWork } from './index';

type Handler = (req: any, res: any, next: (argument?: any) => void) => unknown;

declare global {
    namespace Express {
        interface Request {
            /** Undefined if the middleware does not handle the request. The type IdempotentRequest has it set. */
            idem?: Transaction & Partial<LeasedWork>;
        }
    }
}

/** Makes a function that wraps a handler or a Router: `app.post('/orders', idempotent(handler))`, `app.use('/api', idempotent(router))`. */
export function idempotency(options: Options<Request>): (handler: Handler) => Handler;

/** For body parsers that run before the wrapped handler: `express.json({ verify: keepRawBody })`. */
export function keepRawBody(req: any, res: any, bytes: Buffer): void;
