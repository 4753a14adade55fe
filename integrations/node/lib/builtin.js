'use strict';

/** A module of Node. In a bundle that is an ES module there is no require(). */
const builtin = (name) => process.getBuiltinModule?.(name) ?? require(name);

module.exports = { builtin };
