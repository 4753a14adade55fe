'use strict';

const { keyDescription } = require('./tool_texts.js');

const longest = 200;
const isZod4 = (schema) => schema?._zod !== undefined;
const isZod = (schema) => isZod4(schema) || schema?._def?.typeName !== undefined;

/** The application's own zod, of the version of its schemas. */
function zodOf(schema) {
    try {
        return isZod4(schema) ? require('zod/v4') : require('zod/v3');
    } catch {
        return require('zod');
    }
}

/** The names of the arguments; undefined if the schema does not tell them. */
function names(schema) {
    if (schema === undefined) return [];
    const shape = isZod(schema) || schema['~standard'] ? (typeof schema._def?.shape === 'function' ? schema._def.shape() : schema.shape) : schema;
    const properties = shape ?? schema.properties;
    return properties && typeof properties === 'object' ? Object.keys(properties) : undefined;
}

/**
 * The schema with a required argument idempotency_key.
 *
 * @param schema of zod: an object or the shape of one; or another Standard Schema that makes JSON Schema
 */
function withKey(tool, schema = {}) {
    if (names(schema)?.includes('idempotency_key')) throw new TypeError(`the schema of "${tool}" has an idempotency_key of its own: give key: (args) => args.idempotency_key`);
    const standard = schema['~standard'];
    if (!isZod(schema) && !standard) {
        const [sample] = Object.values(schema);
        if (sample !== undefined && !isZod(sample)) throw mistake(tool);
        const z = sample === undefined ? zodOf({ _zod: true }) : zodOf(sample);
        return { ...schema, idempotency_key: keyOf(z) };
    }
    if (isZod(schema) && typeof schema.extend === 'function') {
        const z = zodOf(schema);
        return (schema.safeExtend ?? schema.extend).call(schema, { idempotency_key: keyOf(z) });
    }
    if (!standard?.jsonSchema) throw mistake(tool);
    return { '~standard': { ...standard, validate: (value) => validate(standard, value), jsonSchema: { input: (options) => added(standard.jsonSchema.input(options)), output: (options) => added(standard.jsonSchema.output(options)) } } };
}

const mistake = (tool) => new TypeError(`key: 'argument' cannot add "idempotency_key" to the schema of "${tool}": use an object of zod, or add it yourself and give key: (args) => args.idempotency_key`);

const keyOf = (z) => z.string().min(1).max(longest).describe(keyDescription);

async function validate(standard, value) {
    const { idempotency_key: key, ...rest } = value ?? {};
    if (typeof key !== 'string' || key === '' || key.length > longest) return { issues: [{ message: `must be text of 1 to ${longest} characters`, path: ['idempotency_key'] }] };
    const result = await standard.validate(rest);
    return result.issues ? result : { value: { ...result.value, idempotency_key: key } };
}

const added = (schema) => ({
    ...schema, properties: { ...schema.properties, idempotency_key: { type: 'string', minLength: 1, maxLength: longest, description: keyDescription } },
    required: [...(schema.required ?? []), 'idempotency_key'],
});

/** Names in `identity` that no argument has are a mistake. */
function checkIdentity(tool, identity, schema) {
    const known = names(schema);
    const unknown = known && identity?.find((name) => !known.includes(name));
    if (unknown !== undefined) throw new TypeError(`"identity" of "${tool}" names "${unknown}", which is no argument`);
}

module.exports = { withKey, checkIdentity };
