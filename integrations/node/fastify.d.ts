import type { FastifyRequest } from 'fastify';
import type { Options } from './index';

/** A plugin: `fastify.register(idempotency, options)`. The handler finds the transaction in `request.idem`. */
export function idempotency(fastify: any, options: Options<FastifyRequest>): Promise<void>;
