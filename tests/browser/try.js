// The page "Try it" of the site: node try.js URL DIRECTORY, where the pictures go.
import assert from 'node:assert/strict';
import { chromium } from 'playwright-core';

const [site, pictures] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: process.getuid() === 0 ? ['--no-sandbox'] : [] });

for (const [path, ready, name] of [['docs/try.html', 'ready', 'try'], ['docs/zh/try.html', '就绪', 'try-zh']]) {
    const page = await browser.newPage({ viewport: { width: 1280, height: 1100 } });
    page.setDefaultTimeout(60_000);
    const requests = [], faults = [];
    page.on('request', (request) => requests.push(request.url()));
    page.on('pageerror', (error) => faults.push(String(error)));
    const began = performance.now();
    await page.goto(`${site}/${path}`);
    await page.locator('.try-status', { hasText: ready }).waitFor();
    console.log(`${path}: ready after ${Math.round(performance.now() - began)} ms`);
    const loaded = requests.length;

    const run = async (sql) => {
        if (sql !== undefined) await page.fill('#try-sql', sql);
        await page.press('#try-sql', 'Control+Enter');
        await page.locator('button.md-button--primary:enabled').waitFor();
        await page.waitForFunction(() => document.querySelector('.try-error') || document.querySelector('.try-status').textContent !== '');
        return page.locator('#try-results').innerText();
    };
    assert.match(await run(), /acquired/);
    console.log(`${path}: the first payment after ${Math.round(performance.now() - began)} ms`);
    const replay = await run();
    assert.match(replay, /completed/);
    assert.equal((replay.match(/alice/g) ?? []).length, 1);
    assert.match(await page.locator('#try-state').innerText(), /order 17/);
    await page.screenshot({ path: `${pictures}/${name}-1280.png` });
    assert.match(await run("SELECT idem_claim('')"), /22023/);
    const buttons = page.locator('.try-examples button');
    for (let i = 0; i < await buttons.count(); i++) {
        await buttons.nth(i).click();
        const shown = await run();
        if (/refused by the table/.test(await page.inputValue('#try-sql'))) assert.match(shown, /ID003/);
        else assert.equal(await page.locator('.try-error').count(), 0, shown);
    }
    await page.setViewportSize({ width: 360, height: 900 });
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= 360), 'the page is wider than the window');
    await page.screenshot({ path: `${pictures}/${name}-360.png`, fullPage: true });
    assert.deepEqual(requests.slice(loaded), [], 'a request after the page was loaded');
    assert.deepEqual(requests.filter((url) => !url.startsWith(`${site}/`) && !/^(data|blob):/.test(url)), []);
    assert.deepEqual(faults, []);
    await page.close();
}
await browser.close();
