// The page "Try it": PGlite in the reader's browser, with the portable edition. ./pglite and ./idem.sql come from scripts/docs-site.sh.

const root = document.getElementById('try');
const language = root.dataset.language === 'zh' ? 1 : 0;
const t = (...texts) => texts[language];

const payment = `-- Run it twice: one payment, and the second run gets the stored response.
CREATE TABLE IF NOT EXISTS payment (id int GENERATED ALWAYS AS IDENTITY, account text, amount numeric);

SELECT outcome, response FROM idem_execute('order 17',
    'INSERT INTO payment (account, amount) VALUES ($1, $2) RETURNING id, amount', '["alice", 25]', scope => 'shop');

SELECT * FROM payment;`;

const examples = [
    [t('A payment, twice', '付款两次'), payment],
    [t('Another amount', '金额不同'), `-- The key of the payment with another request: nothing is done.
SELECT outcome FROM idem_begin('order 18', idem_fingerprint('{"amount": 25}'), scope => 'shop');
SELECT outcome FROM idem_begin('order 18', idem_fingerprint('{"amount": 99}'), scope => 'shop');`],
    [t('Claims', '占用键'), `SELECT idem_claim('message 1') AS first, idem_claim('message 1') AS again;
SELECT new FROM idem_claim_many('{a, b, a, c}') AS new;`],
    [t('A lock with a fence', '带令牌的锁'), `-- Each holder gets a greater token; NULL: another holder has the lock.
SELECT idem_lock('nightly job', '1 hour', 'host 1') AS host_1, idem_lock('nightly job', '1 hour', 'host 2') AS host_2;`],
    [t('A one-time token', '一次性令牌'), `WITH form AS MATERIALIZED (SELECT idem_token_issue('alice') AS token)
SELECT left(token, 12) || '…' AS token, idem_token_redeem(token, 'alice') AS first FROM form;
SELECT idem_token_redeem('made up', 'alice') AS "made up";`],
    [t('Order numbers', '订单号'), `SELECT idem_next_id() AS id, (idem_id_parts(idem_next_id())).*;`],
    [t('The outbox', '发件箱'), `SELECT idem_publish('mail', '{"to": "alice"}', key => 'alice');
SELECT id, topic, key, payload, attempt, fence FROM idem_outbox_take('mail');`],
    [t('A state machine', '状态机'), `CREATE TABLE IF NOT EXISTS orders (id int PRIMARY KEY, state text NOT NULL);
SELECT idem_machine_define('order', '{"initial": ["new"], "transitions": {"new": ["paid"], "paid": ["shipped"]}}');
SELECT idem_machine_attach('orders', 'state', 'order');
INSERT INTO orders VALUES (1, 'new') ON CONFLICT DO NOTHING;
SELECT * FROM idem_transition('orders', '{"id": 1}', NULL, 'paid');
UPDATE orders SET state = 'new';    -- refused by the table itself`],
];

const states = [
    [t('Keys', '键'), `SELECT scope, key, CASE state WHEN 'c' THEN 'completed' WHEN 'p' THEN 'in progress' WHEN 'd' THEN 'in doubt' ELSE 'released' END AS state, attempt, response
        FROM idem.idem_keys ORDER BY created_at DESC LIMIT 20`],
    [t('Locks', '锁'), 'SELECT key AS lock, fence, owner, lease_until FROM idem.idem_locks ORDER BY fence DESC LIMIT 20'],
    [t('Outbox', '发件箱'), 'SELECT id, topic, key, payload FROM idem.idem_outbox ORDER BY id DESC LIMIT 20'],
];

/** element('p', { className: 'x' }, 'text', child …) */
function element(name, properties = {}, ...children) {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
}

function shown(value) {
    if (value === null) return element('em', {}, 'NULL');
    if (value instanceof Date) return value.toISOString();
    return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

function table({ fields, rows }, caption) {
    const names = fields.map(({ name }) => name);
    return element('div', { className: 'try-table', tabIndex: 0, role: 'region', ariaLabel: caption ?? names.join(', ') },
        element('table', {},
            element('thead', {}, element('tr', {}, ...names.map((name) => element('th', { scope: 'col' }, name)))),
            element('tbody', {}, ...rows.map((row) => element('tr', {}, ...names.map((name) => element('td', {}, shown(row[name])))))),
        ));
}

const editor = element('textarea', { id: 'try-sql', spellcheck: false, value: payment, rows: 12 });
const run = element('button', { type: 'button', className: 'md-button md-button--primary', disabled: true }, t('Run', '运行'));
const status = element('p', { className: 'try-status', role: 'status' }, t('PostgreSQL is loading…', '正在加载 PostgreSQL……'));
const results = element('div', { id: 'try-results' });
const state = element('div', { id: 'try-state' });

root.replaceChildren(
    element('div', { className: 'try-examples', role: 'group', ariaLabel: t('Examples', '示例') }, ...examples.map(([name, sql]) =>
        element('button', { type: 'button', className: 'md-button', onclick: () => { editor.value = sql; editor.focus(); } }, name))),
    element('div', { className: 'try-columns' },
        element('section', {},
            element('label', { htmlFor: 'try-sql' }, t('SQL, run by the button or Ctrl+Enter', 'SQL，按按钮或 Ctrl+Enter 运行')), editor,
            element('p', {}, run), status, results),
        element('section', {}, element('h2', {}, t('What idem has', 'idem 里有什么')), state)),
);

let database;

async function refresh() {
    const parts = [];
    for (const [name, query] of states) {
        const found = await database.query(query);
        parts.push(element('h3', {}, `${name}: ${found.rows.length}`), ...(found.rows.length ? [table(found, name)] : []));
    }
    state.replaceChildren(...parts);
}

function failure(error) {
    const lines = [['', `${error.code ?? ''} ${error.message}`], ['DETAIL: ', error.detail], ['HINT: ', error.hint]];
    return element('div', { className: 'try-error', role: 'alert' }, ...lines.filter(([, text]) => text).map(([mark, text]) => element('p', {}, mark + text)));
}

async function execute() {
    if (run.disabled) return;
    run.disabled = true;
    status.textContent = '';
    const began = performance.now();
    try {
        const made = await database.exec(editor.value);
        results.replaceChildren(...made.filter(({ fields }) => fields.length).map((result) => table(result)));
        status.textContent = t(`done in ${Math.ceil(performance.now() - began)} ms`, `用时 ${Math.ceil(performance.now() - began)} 毫秒`);
    } catch (error) {
        results.replaceChildren(failure(error));
        await database.exec('ROLLBACK').catch(() => {});
    }
    await refresh();
    run.disabled = false;
}

run.onclick = execute;
editor.onkeydown = (event) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) execute();
};

try {
    const [{ PGlite }, sql] = await Promise.all([import('./pglite/index.js'), fetch(new URL('idem.sql', import.meta.url)).then((file) => file.text())]);
    database = new PGlite();
    await database.exec(sql);
    await database.exec('SET search_path = public, idem');
    await refresh();
    status.textContent = t('ready', '就绪');
    run.disabled = false;
} catch (error) {
    status.textContent = location.protocol === 'file:'
        ? t('A browser loads this page from a server only: python3 -m http.server', '这个页面要从服务器打开：python3 -m http.server')
        : t('PostgreSQL could not be loaded: ', '无法加载 PostgreSQL：') + error.message;
}
