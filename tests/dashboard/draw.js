// draw.js PROMETHEUS MINUTES FILE: the dashboard of the last MINUTES as a picture, from the Prometheus at this URL. TAP: each panel shows
// something. The working directory is that of the checkout.
import { resolve } from 'node:path';
import { build } from 'esbuild';
import { chromium } from 'playwright-core';

const [prometheus, minutes, file] = process.argv.slice(2);
const step = 15;
const to = Math.floor(Date.now() / 1000 / step) * step;
const settings = { prometheus, from: to - minutes * 60, to, step, width: 1600 };

const { outputFiles } = await build({
    entryPoints: [new URL('panels.jsx', import.meta.url).pathname], bundle: true, write: false, outdir: '.', format: 'esm', target: 'es2022', jsx: 'automatic',
    alias: { dashboard: resolve('monitoring/dashboard.json') }, loader: { '.svg': 'dataurl', '.ttf': 'empty' },
    define: { 'process.env.NODE_ENV': '"production"', global: 'window' },
});
const bundled = (suffix) => outputFiles.find(({ path }) => path.endsWith(suffix)).text;

const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: process.getuid() === 0 ? ['--no-sandbox'] : [],
});
try {
    const page = await browser.newPage({ viewport: { width: settings.width + 8, height: 900 } });
    const drawn = new Promise((done, fail) => {
        page.on('pageerror', fail);
        page.exposeFunction('drawn', done);
    });
    // A page of Prometheus's own address may ask it.
    await page.route(`${prometheus}/dashboard`, (route) => route.fulfill({ contentType: 'text/html', body: '<!doctype html><title>idem</title>' }));
    await page.goto(`${prometheus}/dashboard`);
    await page.evaluate((value) => { window.settings = value; }, settings);
    await page.addStyleTag({ content: bundled('.css') });
    await page.addScriptTag({ content: bundled('.js'), type: 'module' });
    const panels = await drawn;
    await page.waitForTimeout(2000); // canvases
    await page.screenshot({ path: file, fullPage: true });
    console.log(`1..${panels.length}`);
    if (panels.some(({ series }) => series === 0)) process.exitCode = 1;
    panels.forEach(({ title, series }, i) => console.log(`${series > 0 ? 'ok' : 'not ok'} ${i + 1} - ${title}: ${series} series`));
} finally {
    await browser.close();
}
