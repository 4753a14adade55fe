// What makes the pages pleasant. Nothing in here keeps an order from being made twice: the server does, with or without it.
"use strict";

const columns = document.querySelector("[data-page]");
const texts = document.getElementById("texts");
const strings = texts ? JSON.parse(texts.dataset.strings) : {};
const messages = texts ? JSON.parse(texts.dataset.messages) : {};

document.querySelector('nav [aria-current="page"]')?.scrollIntoView({inline: "center", block: "nearest"});

// --- Live: the panel, and the state of the order ------------------------------------------------------------------------------

async function fetchHtml(path) {
    const reply = await fetch(path, {signal: AbortSignal.timeout(3000)});
    return reply.ok ? reply.text() : null;
}

async function refresh(element, path) {
    const html = await fetchHtml(path);
    // Leave what has not changed: somebody may be selecting text in it.
    if (html !== null && element.lastHtml !== html) {
        element.innerHTML = html;
        element.lastHtml = html;
    }
}

async function refreshAll() {
    const {page, language} = columns.dataset;
    await refresh(document.getElementById("panel"), `/${page}/panel?lang=${language}`);
    const order = document.getElementById("order");
    if (order) {
        await refresh(document.getElementById("order-state"), order.dataset.state);
        order.dataset.status = document.getElementById("order-status").dataset.status;
    }
}

async function watch() {
    try {
        if (!document.hidden)
            await refreshAll();
    } catch {
        // The server is away; it will be asked again.
    }
    setTimeout(watch, 900);
}

// --- The button greys out, which spares the server some work ------------------------------------------------------------------

function greyOut(form, grey) {
    const button = form.querySelector("button");
    button.textContent = grey ? button.dataset.busy ?? button.textContent : button.dataset.idle ?? button.textContent;
    button.disabled = grey;
}

function prepareForm(form) {
    const button = form.querySelector("button");
    button.dataset.idle = button.textContent;
    form.addEventListener("submit", event => {
        if (columns.dataset.page === "key" && form.id === "checkout") {
            event.preventDefault();
            if (!button.disabled)
                order(form);
        }
        greyOut(form, true);
    });
    // "Back" brings the page as it was left.
    addEventListener("pageshow", () => greyOut(form, false));
}

// --- The Idempotency-Key page -------------------------------------------------------------------------------------------------

const attemptsAtMost = 8;
const waitLimit = 3000;
const pause = ms => new Promise(done => setTimeout(done, ms));

function noteAttempt(number, result) {
    const line = document.createElement("li");
    line.dataset.attempt = number;
    line.dataset.result = result;
    line.textContent = `${strings["js.attempt"]} ${number}: ${strings[`js.${result}`] ?? result}`;
    document.getElementById("attempts").append(line);
}

// One attempt: the status code and the body, or why there is none.
async function attempt(form, number) {
    const fields = Object.fromEntries(new FormData(form));
    const {key, ...body} = fields;
    try {
        const reply = await fetch("/api/orders", {
            method: "POST",
            headers: {"Content-Type": "application/json", "Idempotency-Key": `"${key}"`},
            body: JSON.stringify(body),
            signal: AbortSignal.timeout(waitLimit),
        });
        const answer = await reply.json();
        noteAttempt(number, reply.status);
        return {reply, answer};
    } catch (error) {
        noteAttempt(number, error.name === "TimeoutError" ? "timeout" : "network");
        return null;
    }
}

// What is worth another try with the same key: no answer, "somebody is at it", "too fast", and the server's own trouble.
function isFinal({reply, answer}) {
    return reply.status < 500 && reply.status !== 429 && answer.code !== "in_flight";
}

async function order(form) {
    document.getElementById("attempts").replaceChildren();
    for (let number = 1; number <= attemptsAtMost; number++) {
        const result = await attempt(form, number);
        if (result && isFinal(result))
            return finish(form, result);
        const asked = Number(result?.reply.headers.get("Retry-After") ?? 0) * 1000;
        await pause(Math.max(asked, 200 * number));
    }
    show("error", "");
    greyOut(form, false);
}

function outcomeOf({reply, answer}) {
    if (reply.status === 201)
        return reply.headers.get("Idempotent-Replayed") === "true" ? "already" : "ordered";
    return ["mismatch", "sold_out"].includes(answer.code) ? answer.code : "invalid";
}

function show(outcome, order) {
    document.getElementById("message")?.remove();
    const box = document.createElement("div");
    box.id = "message";
    box.setAttribute("role", "status");
    box.dataset.outcome = outcome;
    box.dataset.order = order;
    box.append(Object.assign(document.createElement("p"), {textContent: messages[`outcome.${outcome}`]}));
    document.getElementById("content").prepend(box);
}

async function finish(form, result) {
    const outcome = outcomeOf(result), number = result.answer.order ?? "";
    if (number) {
        // The form stays in the document, hidden, with its key: a stray event finds nothing new.
        form.after(document.getElementById("attempts"));
        form.hidden = true;
        const page = await fetchHtml(`/key/order/${number}?lang=${columns.dataset.language}`);
        const card = page && new DOMParser().parseFromString(page, "text/html").getElementById("order");
        document.getElementById("order")?.remove();
        if (card)
            document.getElementById("content").append(document.adoptNode(card));
    } else {
        greyOut(form, false);
    }
    show(outcome, number);
    if (outcome === "mismatch") {
        const link = Object.assign(document.createElement("a"),
            {id: "new-order", href: `/key?lang=${columns.dataset.language}`, textContent: strings["js.new_order"]});
        document.getElementById("message").append(link);
    }
}

if (columns) {
    document.querySelectorAll("form").forEach(prepareForm);
    watch();
}
