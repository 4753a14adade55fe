// What people and networks do to a checkout. Afterwards there is one order, one charge, and the right stock, and the visitor was told so.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import {
    clickFast, closeBrowser, cuttingProxy, eventually, expectOneOrder, keepButtons, leave, message, openBrowser, pay, shop, state, totals, visit,
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

each('ten quick clicks on a button that does not grey out', schemes, async (page, scheme) => {
    await keepButtons(page);
    await clickFast(page, 10);
    const told = await message(page);
    // Ten scripts at once on one page: the last one has the word, and may have been sent away as too fast.
    if (scheme !== 'key') assert.ok(['ordered', ...duplicates(scheme)].includes(told.outcome), told.outcome);
    await expectOneOrder(scheme);
});

test('plain: the same clicks, and nothing that guards: more than one order', async () => {
    const page = await visit('plain');
    await keepButtons(page);
    await clickFast(page, 10);
    await message(page);
    await eventually('there are several orders', async () => (await state('plain')).totals.orders > 1);
    await leave(page);
});

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
        // A browser sends a request again by itself, once, when an old connection breaks.
        const proxy = await cuttingProxy(2);
        const page = await visit(scheme, { origin: proxy.origin });
        try {
            if (scheme === 'key') {
                await page.locator('#pay').click();
                const told = await message(page);
                assert.equal(told.outcome, 'already');
                assert.ok((await page.locator('#attempts li[data-result=network]').count()) > 0);
                await expectOneOrder(scheme, told);
            } else {
                // The browser's own page says what happened. Back to the form, and again, until somebody answers.
                while (proxy.cut < 2) {
                    const failed = page.waitForEvent('requestfailed', (request) => request.method() === 'POST');
                    await page.locator('#pay').click({ noWaitAfter: true });
                    await failed;
                    await page.goto(`${proxy.origin}/`);
                    await page.goBack();
                    if (new URL(page.url()).pathname !== `/${scheme}`) await page.goBack();
                }
                const told = await pay(page);
                assert.ok(duplicates(scheme).includes(told.outcome), told.outcome);
                await expectOneOrder(scheme, told.outcome === 'already' ? told : {});
            }
            assert.equal(proxy.cut, 2);
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
    assert.deepEqual([refused, problem.code, problem.order], [422, 'key_reused', undefined]);
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
