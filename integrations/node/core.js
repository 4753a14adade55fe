'use strict';

const { Capture } = require('./lib/capture.js');
const { Core, current } = require('./lib/core.js');
const { readBody } = require('./lib/body.js');

module.exports = { Core, Capture, readBody, current };
