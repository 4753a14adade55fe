// What people and networks do to a checkout. Afterwards there is one order, one charge, and the right stock, and the visitor was told so.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import {
    clickAndSend, clickFast, closeBrowser, eventually, expectOneOrder, keepButtons, leave, message, openBrowser, pay, shop, startProxy, state, totals,
    visit,
} from './shop.js';

const forms = ['token', 'counter', 'number', 'optimistic', 'pessimistic', 'machine', 'prg'];
const schemes = [...forms, 'key'];
// The optimistic page cannot tell a form that was sent twice from somebody else's who was faster.
const duplicates = (scheme) => (scheme === 'optimistic' ? ['already', 'conflict'] : ['already']);

before(openBrowser);
after(closeBrowser);

// check NAME SCHEMES WORK: a test for each.
function each(name, which, work, options) {
    for (const scheme of which) {
        test(`${scheme}: ${name}`, async () => {
            const page = await visit(scheme, typeof options === 'function' ? await options(scheme) : options);
            try {
                await work(page, scheme);
            } finally {
                await leave(page);
            }
        });
    }
}

each('ten quick clicks', schemes, async (page, scheme) => {
    await clickFast(page, 10);
    const told = await message(page);
    assert.ok(['ordered', 'already'].includes(told.outcome), told.outcome);
    await expectOneOrder(scheme, told);
});

// A browser has no more than six connections to a server, and a script waits on all of its requests.
const clicks = (scheme) => (scheme === 'key' ? 5 : 10);

for (const scheme of [...schemes, 'plain']) {
    test(`${scheme}: the button clicked ${clicks(scheme)} times before there is an answer, and it does not grey out`, async () => {
        const proxy = await startProxy({ hold: clicks(scheme) });
        const page = await visit(scheme, { origin: proxy.origin });
        try {
            await keepButtons(page);
            await clickAndSend(page, proxy, clicks(scheme));
            const told = await message(page);
            if (scheme === 'plain') {
                // Nothing guards this one. That it shows means that the clicks of the others were worth something.
                await eventually('there are several orders', async () => (await totals('plain')).orders > 1);
                return;
            }
            // Scripts on one page at the same time: the last one has the word, and may have been sent away as too fast.
            if (scheme !== 'key') assert.ok(['ordered', ...duplicates(scheme)].includes(told.outcome), told.outcome);
            await expectOneOrder(scheme);
        } finally {
            await leave(page);
            proxy.close();
        }
    });
}

each('Enter held down', schemes, async (page, scheme) => {
    if (scheme !== 'key') await keepButtons(page);
    await page.locator('#note').focus();
    for (let i = 0; i < 10; i++) await page.keyboard.down('Enter');
    await page.keyboard.up('Enter');
    const told = await message(page);
    assert.ok(['ordered', ...duplicates(scheme)].includes(told.outcome), told.outcome);
    await expectOneOrder(scheme);
});

each('back, and sent again', forms, async (page, scheme) => {
    const first = await pay(page);
    assert.equal(first.outcome, 'ordered');
    await page.goBack();
    const second = await pay(page);
    assert.ok(duplicates(scheme).includes(second.outcome), second.outcome);
    if (second.outcome === 'already') assert.equal(second.order, first.order);
    await expectOneOrder(scheme, first);
});

each('the result of the POST reloaded', forms, async (page, scheme) => {
    const first = await pay(page);
    assert.equal(first.outcome, 'ordered');
    await page.reload();
    // After a redirect there is nothing to send again, only an order to look at.
    if (scheme !== 'prg') assert.ok(duplicates(scheme).includes((await message(page)).outcome));
    await page.reload();
    await expectOneOrder(scheme, first);
});

each('two tabs with one form', forms, async (page, scheme) => {
    const other = await page.context().newPage();
    await other.goto(page.url());
    const hidden = await page.locator('#checkout input[type=hidden]').evaluateAll((all) => all.map(({ name, value }) => [name, value]));
    await other.evaluate((fields) => {
        for (const [name, value] of fields) document.querySelector(`#checkout input[name="${name}"]`).value = value;
    }, hidden);
    const told = await Promise.all([pay(page), pay(other)]);
    assert.equal(told.filter(({ outcome }) => outcome === 'ordered').length, 1);
    assert.equal(told.filter(({ outcome }) => duplicates(scheme).includes(outcome)).length, 1);
    const { order } = told.find(({ outcome }) => outcome === 'ordered');
    await expectOneOrder(scheme, { order });
});

for (const scheme of schemes) {
    test(`${scheme}: the answer is lost on its way, and the visitor tries again`, async () => {
        // A browser sends a request again by itself when an old connection breaks; the script is to notice, too.
        const cut = scheme === 'key' ? 5 : 2;
        const proxy = await startProxy({ cut });
        const page = await visit(scheme, { origin: proxy.origin });
        try {
            if (scheme === 'key') {
                await page.locator('#pay').click();
                const told = await message(page);
                assert.equal(told.outcome, 'already');
                assert.ok((await page.locator('#attempts li[data-result=network]').count()) > 0);
                await expectOneOrder(scheme, told);
            } else {
                // The browser shows a page of its own. Back to the form, and again, until somebody answers.
                while (proxy.cut < cut) {
                    const before = proxy.cut;
                    await page.locator('#pay').click({ noWaitAfter: true });
                    await eventually('the answer is lost', () => proxy.cut > before);
                    await page.locator('#pay').waitFor({ state: 'detached' });
                    await page.goBack();
                    await page.locator('#pay').waitFor();
                }
                const told = await pay(page);
                assert.ok(duplicates(scheme).includes(told.outcome), told.outcome);
                await expectOneOrder(scheme, told.outcome === 'already' ? told : {});
            }
            assert.equal(proxy.cut, cut);
        } finally {
            await leave(page);
            proxy.close();
        }
    });
}

test('token: expired', async () => {
    const page = await visit('token', { query: '&ttl=1' });
    await new Promise((resolve) => setTimeout(resolve, 1500));
    assert.equal((await pay(page)).outcome, 'expired');
    assert.equal((await state('token')).totals.orders, 0);
    // The form below is a fresh one.
    const told = await pay(page);
    assert.equal(told.outcome, 'ordered');
    await expectOneOrder('token', told);
    await leave(page);
});

each('JavaScript off', forms, async (page, scheme) => {
    const first = await pay(page);
    assert.equal(first.outcome, 'ordered');
    await page.goBack();
    assert.ok(duplicates(scheme).includes((await pay(page)).outcome));
    await expectOneOrder(scheme, first);
}, { javaScriptEnabled: false });

test('key: JavaScript off: the page says that it is needed', async () => {
    const page = await visit('key', { javaScriptEnabled: false });
    assert.ok(await page.locator('#needs-js').isVisible());
    await leave(page);
});

each('the gateway calls back five times', schemes, async (page, scheme) => {
    await page.locator('#gateway').selectOption('repeats');
    const told = await pay(page);
    assert.equal(told.outcome, 'ordered');
    const charge = await expectOneOrder(scheme, { ...told, callbacks: 5 });
    assert.equal(charge.callbacks, 5);
});

test('prg: another amount under the same key', async () => {
    const page = await visit('prg');
    const first = await pay(page);
    await page.goBack();
    await page.locator('#quantity').fill('2');
    assert.equal((await pay(page)).outcome, 'mismatch');
    await expectOneOrder('prg', first);
    await leave(page);
});

test('key: another amount under the same key', async () => {
    const page = await visit('key');
    const send = (quantity) => page.evaluate(async (body) => {
        const reply = await fetch('/api/orders', {
            method: 'POST', headers: { 'Content-Type': 'application/json', 'Idempotency-Key': '"one-key"' }, body: JSON.stringify(body),
        });
        return [reply.status, await reply.json(), reply.headers.get('Idempotent-Replayed')];
    }, { quantity, note: '', gateway: 'normal' });
    const [status, { order }] = await send(1);
    assert.equal(status, 201);
    const [refused, problem] = await send(2);
    assert.deepEqual([refused, problem.code, problem.order], [422, 'mismatch', undefined]);
    assert.deepEqual((await send(1)).slice(0, 3).map((part) => part?.order ?? part), [201, order, 'true']);
    await expectOneOrder('key', { order });
    await leave(page);
});

test('the last one is sold once', async () => {
    const page = await visit('token');
    await fetch(`${shop}/api/reset?stock=1`, { method: 'POST' });
    const others = await Promise.all([1, 2].map(async () => {
        const tab = await page.context().newPage();
        await tab.goto(`${shop}/token?lang=en`);
        return tab;
    }));
    const outcomes = (await Promise.all([page, ...others].map(pay))).map(({ outcome }) => outcome).sort();
    assert.deepEqual(outcomes, ['ordered', 'sold_out', 'sold_out']);
    await eventually('it is paid', async () => (await state('token')).totals.booked === 1);
    assert.deepEqual(await totals('token'), { orders: 1, charges: 1, booked: 1, stock: 0 });
    await leave(page);
});
