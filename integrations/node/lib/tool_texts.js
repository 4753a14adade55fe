'use strict';

// What a model reads. Each text says whether the call took effect, and what to do next. tests/vectors/tool_texts.json has the same texts for all languages.

const seconds = (ms) => Math.max(1, Math.ceil((ms ?? 1000) / 1000));

const texts = {
    replayed: ({ tool }) => `(${tool}: this exact call was made before. It was not done again; this is its stored result.)`,
    omitted: ({ tool }) => `${tool}: this call was done before and was not done again. Its result was too large to be kept. Read what it did with another tool.`,
    in_flight: ({ tool, argument, retryAfterMs }) => `${tool}: this call is already running and was not started again. Wait ${seconds(retryAfterMs)} s, then repeat it with exactly the same ` +
        `arguments${argument ? ' and the same idempotency_key' : ''}. Do not start it under another key.`,
    mismatch: ({ tool, key }) => `${tool}: refused, nothing was done. The key "${key}" belongs to an earlier call with other arguments, and that call may have taken effect. ` +
        'Find out what it did before you go on. To get its result, repeat it with exactly its arguments. Only a different, new operation has a key of its own.',
    in_doubt: ({ tool, step }) => `${tool}: it is not known whether an earlier attempt took effect${step ? ` (step "${step}")` : ''}. Do not call it again, neither under this key nor ` +
        'under a new one. A person must check. Tell the user.',
    not_stored: ({ tool }) => `${tool}: it has run, and its result could not be stored. Do not call it again, neither under this key nor under a new one. Tell the user.`,
    commit_unknown: ({ tool }) => `${tool}: the connection to the database was lost at the end, so it is not known yet whether the call took effect. Repeat it with exactly the same ` +
        'arguments. It will not be done twice.',
    lease_lost: ({ tool }) => `${tool}: another attempt has taken this call over. Wait a few seconds, then repeat it with exactly the same arguments to get its result.`,
    unavailable: ({ tool }) => `${tool}: the database could not be reached, so the call was not completed. Wait a few seconds, then repeat it with exactly the same arguments. ` +
        'What has been done is not done again.',
    key_missing: ({ tool, source }) => `${tool}: nothing was done. ${{
        argument: 'Give "idempotency_key": one new UUID for each operation that the user wants, and the same one when you repeat the call.',
        call: 'The host sent no id of the call, without which a repetition could do it twice. Tell the user.',
        function: 'The arguments do not say which operation this is. Give the missing ones.',
    }[source]}`,
};

/** Of the argument `idempotency_key`, in a tool's schema. */
const keyDescription = 'A new UUID for each operation that the user wants. Repeat a call, also after a timeout, with the same value and exactly the same arguments.';

module.exports = { texts, keyDescription };
