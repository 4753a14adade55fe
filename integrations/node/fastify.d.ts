import type { FastifyRequest } from 'fastify';
import type { Exchange, Options } from './index';

declare module 'fastify' {
    interface FastifyRequest {
        /** null if the middleware does not handle the request. */
        idem: Exchange | null;
    }
}

/** A plugin: `fastify.register(idempotency, options)`. The handler finds the transaction in `request.idem`. */
export function idempotency(fastify: any, options: Options<FastifyRequest>): Promise<void>;
