import type { Options } from './index';

/**
 * An interceptor for applications that are created with `{ rawBody: true }`. The handler finds the transaction in `request.idem`.
 * `Request` is Express's or Fastify's.
 */
export class IdempotencyInterceptor<Request = any> {
    constructor(options: Options<Request>);
    intercept(context: any, next: any): any;
}

/** The token of the options that `@Idempotent()` adds its own to: `{ provide: IDEMPOTENCY, useFactory: (pool) => ({ database: pool, scope }), inject: [Pool] }`. */
export const IDEMPOTENCY: string;

/**
 * A decorator of a route or a controller. A module that the controller's module sees provides the options that all routes share; without it, `options` are all.
 * Not together with a global interceptor, which handles the request first.
 */
export function Idempotent<Request = any>(options?: Partial<Options<Request>>): MethodDecorator & ClassDecorator;
