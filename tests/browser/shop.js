// What the tests of the checkout share. SHOP_URL is a shop that was started with --test.
import assert from 'node:assert/strict';
import http from 'node:http';
import { chromium } from 'playwright-core';

export const shop = process.env.SHOP_URL;
export const initialStock = 20;
// The machine may be busy with other things; what has to wait, waits for an event, and no longer than this.
const waitLimit = 60_000;

let browser;

export async function openBrowser() {
    browser = await chromium.launch({
        executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
        args: process.getuid() === 0 ? ['--no-sandbox'] : [],
    });
}

export const closeBrowser = () => browser?.close();

// A visitor who has never been here, on the page of a scheme. What came before is forgotten.
export async function visit(scheme, { origin = shop, query = '', ...options } = {}) {
    const reset = await fetch(`${shop}/api/reset?stock=${initialStock}`, { method: 'POST' });
    assert.equal(reset.status, 204);
    const context = await browser.newContext({ locale: 'en', ...options });
    context.setDefaultTimeout(waitLimit);
    const page = await context.newPage();
    await page.goto(`${origin}/${scheme}?lang=en${query}`);
    return page;
}

export const leave = (page) => page.context().close();

// Buttons that cannot be greyed out: nothing may depend on that.
export async function keepButtons(page) {
    await page.evaluate(() => Object.defineProperty(HTMLButtonElement.prototype, 'disabled', { get: () => false, set: () => {} }));
}

// The button's place. Asked for before the first click: while a page is being left, the driver answers no questions about it.
async function placeOfButton(page) {
    await page.locator('#pay').scrollIntoViewIfNeeded();
    const { x, y, width, height } = await page.locator('#pay').boundingBox();
    return [x + width / 2, y + height / 2];
}

export async function clickFast(page, times) {
    await page.mouse.click(...(await placeOfButton(page)), { clickCount: times });
}

export async function pay(page) {
    await page.locator('#pay').click();
    return message(page);
}

// What the visitor is told in the end: the outcome and the order. While another request is at it, the page offers to ask again.
export async function message(page) {
    for (;;) {
        const box = page.locator('#message');
        await box.waitFor();
        const { outcome, order } = await box.evaluate((element) => ({ ...element.dataset }));
        assert.notEqual((await box.innerText()).trim(), '', 'there is a message to read');
        if (outcome !== 'in_flight') return { outcome, order };
        await page.locator('#again').click();
    }
}

export async function state(scheme) {
    const reply = await fetch(`${shop}/api/state?scheme=${scheme}`);
    return (await reply.json()).schemes[scheme];
}

export async function totals(scheme) {
    const { orders, charges, booked, stock } = (await state(scheme)).totals;
    return { orders, charges, booked, stock };
}

export async function eventually(what, check) {
    const deadline = Date.now() + waitLimit;
    for (;;) {
        if (await check()) return;
        assert.ok(Date.now() < deadline, `timed out: ${what}`);
        await new Promise((resolve) => setTimeout(resolve, 100));
    }
}

// One order of that quantity: paid, charged once, booked once, and that much less in stock.
export async function expectOneOrder(scheme, { order, quantity = 1, callbacks = 1 } = {}) {
    await eventually('the order is paid and booked', async () => {
        const { orders, charges, bookings } = await state(scheme);
        return orders.some((one) => one.status === 'paid') && bookings.length > 0 && charges.every((one) => one.callbacks >= callbacks);
    });
    const { orders, charges, bookings } = await state(scheme);
    assert.deepEqual(await totals(scheme), { orders: 1, charges: 1, booked: 1, stock: initialStock - quantity });
    const [one] = orders.filter(({ status }) => status !== 'cart');
    assert.deepEqual([one.status, one.quantity, one.amount], ['paid', quantity, 2500 * quantity]);
    assert.deepEqual(charges.map((charge) => [charge.order, charge.amount, charge.status]), [[one.id, 2500 * quantity, 'charged']]);
    assert.deepEqual(bookings.map((booking) => [booking.order, booking.amount]), [[one.id, 2500 * quantity]]);
    if (order !== undefined) assert.equal(order, one.id, 'the visitor was told the number of the order that there is');
    return charges[0];
}

// Stands between browser and shop. `cut`: hangs up, that many times, when the answer to a POST should go back; the request has arrived
// and was worked on, and nobody will know. `hold`: keeps the answers to POSTs until that many of them have arrived.
export async function startProxy({ cut = 0, hold = 0 }) {
    const proxy = { posts: 0, cut: 0 };
    let release;
    const released = new Promise((resolve) => (release = resolve));
    const server = http.createServer((request, response) => {
        const post = request.method === 'POST';
        // What has arrived is worked on, even if the browser does not wait for the answer.
        const onward = http.request(`${shop}${request.url}`, { method: request.method, headers: request.headers, agent: false }, async (answer) => {
            if (post && proxy.cut < cut) {
                proxy.cut++;
                answer.resume().on('end', () => request.socket.destroy());
                return;
            }
            if (post && hold > 0) await released;
            response.writeHead(answer.statusCode, answer.rawHeaders);
            answer.pipe(response);
        });
        onward.on('error', () => request.socket.destroy());
        request.pipe(onward).on('finish', () => {
            if (post && ++proxy.posts >= hold) release();
        });
    });
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
    proxy.origin = `http://127.0.0.1:${server.address().port}`;
    proxy.close = () => {
        server.closeAllConnections();
        server.close();
    };
    return proxy;
}

// Clicks that each send a request, before any of them is answered: faster, and the browser keeps but the last one.
export async function clickAndSend(page, proxy, times) {
    const place = await placeOfButton(page);
    for (let sent = 1; sent <= times; sent++) {
        await page.mouse.click(...place);
        await eventually(`${sent} requests are sent`, () => proxy.posts >= sent);
    }
}
