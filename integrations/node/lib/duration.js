'use strict';

// A duration is an interval of PostgreSQL with its unit, such as '30 s', or an object such as { minutes: 5 }.

const perUnit = {
    ms: 1, msec: 1, msecs: 1, millisecond: 1, milliseconds: 1, s: 1000, sec: 1000, secs: 1000, second: 1000, seconds: 1000,
    m: 60_000, min: 60_000, mins: 60_000, minute: 60_000, minutes: 60_000, h: 3_600_000, hr: 3_600_000, hrs: 3_600_000, hour: 3_600_000, hours: 3_600_000,
    d: 86_400_000, day: 86_400_000, days: 86_400_000, w: 604_800_000, week: 604_800_000, weeks: 604_800_000,
};
const members = ['milliseconds', 'seconds', 'minutes', 'hours', 'days', 'weeks'];
const number = String.raw`\d+(?:\.\d+)?`;
const units = new RegExp(String.raw`^\s*(?:${number}\s*[a-z]+\s*)+$`, 'i');
const clock = new RegExp(String.raw`^\s*(\d+):(\d\d)(?::(\d\d(?:\.\d+)?))?\s*$`);
const iso = new RegExp(String.raw`^P(?=.)(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(${number})S)?)?$`);

const isObject = (value) => value !== null && typeof value === 'object' && Object.keys(value).length > 0 &&
    Object.entries(value).every(([name, amount]) => members.includes(name) && Number.isFinite(amount) && amount >= 0);

// PostgreSQL takes '30' for seconds. Hence the unit.
const isDuration = (value) => (typeof value === 'string' ? /\d\s*[a-z]|\d:\d/i.test(value) : isObject(value));

/** In milliseconds; undefined for an interval whose length depends on the date, and for what is none. */
function milliseconds(value) {
    if (isObject(value)) return Object.entries(value).reduce((sum, [name, amount]) => sum + amount * perUnit[name], 0);
    if (typeof value !== 'string') return undefined;
    const [, hours, minutes, seconds = 0] = clock.exec(value) ?? [];
    if (hours !== undefined) return ((Number(hours) * 60 + Number(minutes)) * 60 + Number(seconds)) * 1000;
    const parts = iso.exec(value);
    if (parts) return [86_400_000, 3_600_000, 60_000, 1000].reduce((sum, factor, index) => sum + Number(parts[index + 1] ?? 0) * factor, 0);
    if (!units.test(value)) return undefined;
    let sum = 0;
    for (const [, amount, unit] of value.matchAll(new RegExp(`(${number})\\s*([a-z]+)`, 'gi'))) sum += Number(amount) * (perUnit[unit.toLowerCase()] ?? NaN);
    return Number.isNaN(sum) ? undefined : sum;
}

/** The text of an interval of PostgreSQL. */
const interval = (value) => (value !== null && typeof value === 'object' ? Object.entries(value).map(([name, amount]) => `${amount} ${name}`).join(' ') : value);

/** What to write in place of a bare number. */
const instead = (value) => `write '${value} s' or '${value > 0 && value % 86_400 === 0 ? `${value / 86_400} day${value === 86_400 ? '' : 's'}` : `${value} ms`}'`;

module.exports = { isDuration, milliseconds, interval, instead };
