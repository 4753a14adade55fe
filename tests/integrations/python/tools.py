"""Tools of agents, on stand-ins that make the calls which the SDKs document: they read a tool's signature, and give arguments by name."""

import asyncio
import inspect
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import types

import psycopg
from idem_postgres import Idem, agents, fate, mcp, once
from idem_postgres.tools import text_of
from psycopg_pool import ConnectionPool

from tap import check, same

VECTORS = pathlib.Path(__file__).parents[2] / "vectors" / "tool_texts.json"


class Context:
    """The context of FastMCP and of the official SDK, as far as it is read."""

    def __init__(self, meta=None, headers=None):
        self.request_context = types.SimpleNamespace(meta=types.SimpleNamespace(model_extra=meta), request=types.SimpleNamespace(headers=headers or {}))


class ToolContext:
    """The context of a tool of OpenAI Agents."""

    def __init__(self, tool_call_id, session="s"):
        self.tool_call_id, self.session = tool_call_id, session


class ToolRuntime(ToolContext):
    """The runtime of a tool of LangChain."""


class Server:
    """Calls a tool as an MCP server does: what the signature has, by name, with the context where its type stands."""

    def __init__(self):
        self.tools = {}

    def tool(self):
        return lambda function: self.tools.setdefault(function.__name__, function)

    def schema(self, name):
        return [one for one, parameter in inspect.signature(self.tools[name]).parameters.items() if parameter.annotation is not Context]

    async def call(self, name, arguments, context=None):
        function = self.tools[name]
        unknown = set(arguments) - set(self.schema(name))
        assert not unknown, unknown
        contexts = {one: context or Context() for one, parameter in inspect.signature(function).parameters.items() if parameter.annotation is Context}
        try:
            return False, await function(**arguments, **contexts)
        except Exception as error:
            return True, f"{getattr(error, 'code', type(error).__name__)}: {error}"


def connect():
    return psycopg.connect("", prepare_threshold=None)


async def connect_later():
    return await psycopg.AsyncConnection.connect("", prepare_threshold=None)


def texts():
    vectors = json.loads(VECTORS.read_text())
    same("tools: the texts that the model reads", [text_of(one["code"], one["facts"]) for one in vectors], [one["text"] for one in vectors])


def shop(pool, user="alice"):
    server = Server()

    @server.tool()
    @mcp.idempotent(pool, scope=user, key="argument", identity=["number"], wait="1 s")
    def place_order(run, number: int, reason: str = "", fails: bool = False) -> str:
        run.connection.execute("INSERT INTO orders (number) VALUES (%s)", (number,))
        if fails:
            raise ValueError("sold out")
        return f"order {number}\0"

    @server.tool()
    @mcp.idempotent(connect_later, scope=lambda context: f"{user} {context is not None}", key="call", call_keys=["host/id"])
    async def call_order(run, number: int, ctx: Context) -> dict:
        await run.connection.execute("INSERT INTO orders (number) VALUES (%s)", (number,))
        return {"number": number}

    @server.tool()
    @mcp.idempotent(pool, scope=user, key=lambda args: f"INV-{args['invoice']}" if args["invoice"] else None, lease="1 s", wait="20 s")
    def pay(work, invoice: int, dies: bool = False) -> dict:
        def charge(gate):
            with connect() as other:
                other.execute("INSERT INTO sent VALUES (%s)", (invoice,))
            if dies:
                os.kill(os.getpid(), signal.SIGKILL)
            return {"charge": invoice}

        def reconcile(gate):
            with connect() as other:
                return fate.done({"charge": invoice}) if other.execute("SELECT FROM sent WHERE number = %s", (invoice,)).rowcount else fate.not_done()

        charged = work.step("charge", charge, reconcile)
        work.write("order", lambda run: run.connection.execute("INSERT INTO orders (number) VALUES (%s)", (invoice,)) and {})
        return {**charged, "attempt": work.attempt}

    return server


async def run(rows):
    texts()
    pool = ConnectionPool("", min_size=0, max_size=3, open=True)
    server = shop(pool)
    same("tools: the model sees the argument idempotency_key, and not run", server.schema("place_order"), ["number", "reason", "fails", "idempotency_key"])
    same("tools: no argument is added for other keys", (server.schema("call_order"), server.schema("pay")), (["number"], ["invoice", "dies"]))
    order = lambda number, key, **more: server.call("place_order", {"number": number, "idempotency_key": key, **more})  # noqa: E731
    note = "(place_order: this exact call was made before. It was not done again; this is its stored result.)"
    same("tools: ten at once are one order", sorted({text for _, text in await asyncio.gather(*(order(801, "a") for _ in range(10)))}),
         ["order 801\0", f"order 801\0\n{note}"])
    same("tools: reworded is the same call", (await order(801, "a", reason="please"))[1], f"order 801\0\n{note}")
    is_error, text = await order(802, "a")
    check("tools: another number is refused", is_error and text.startswith('mismatch: place_order: refused, nothing was done. The key "a"'), text)
    same("tools: an error of the tool stores nothing", await order(803, "b", fails=True), (True, "ValueError: sold out"))
    same("tools: and a retry does it", await order(803, "b"), (False, "order 803\0"))
    same("tools: another user has keys of its own", await shop(pool, "bob").call("place_order", {"number": 804, "idempotency_key": "a"}), (False, "order 804\0"))
    for number, context in enumerate((Context({"idempotencyKey": "m"}), Context({"host/id": "h"}), Context(headers={"idempotency-key": '"f"'})), 805):
        got = [await server.call("call_order", {"number": number}, context) for _ in range(2)]
        same(f"tools: the host's id of the call {number}", got, [(False, {"number": number})] * 2)
    check("tools: no id of the call", (await server.call("call_order", {"number": 808}))[1].startswith("key_missing: call_order: nothing was done. The host sent"))
    check("tools: no key of a function", (await server.call("pay", {"invoice": 0}))[1].startswith("key_missing: pay: nothing was done. The arguments"))
    await killed(server)
    await sdks()
    wrong(pool)
    await waiters()
    same("tools: a database that is gone", (await shop(lambda: psycopg.connect("host=/nonexistent")).call("place_order", {"number": 1, "idempotency_key": "x"}))[1].split(":")[0], "unavailable")
    pool.close()
    same("tools: the rows, each once", {number: count for number, count in rows().items() if 800 <= number < 900}, dict.fromkeys([801, 803, 804, 805, 806, 807, 811, 821, 822], 1))
    same("tools: the charges, each once", rows("sent"), {811: 1})


async def killed(server):
    program = "import asyncio, tools; asyncio.run(tools.shop(tools.connect).call('pay', {'invoice': 811, 'dies': True}))"
    ended = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", program])
    same("tools: the process is killed after the charge", ended.returncode, -signal.SIGKILL)
    # dies is an argument: a function key with other arguments would be refused.
    same("tools: and the next attempt asks the gateway", (await server.call("pay", {"invoice": 811, "dies": True}))[1], {"charge": 811, "attempt": 2})
    same("tools: and then it is done", (await server.call("pay", {"invoice": 811, "dies": True}))[1], {"charge": 811, "attempt": 2})


async def sdks():
    """LangChain and OpenAI Agents find their context by its type."""
    for number, kind in ((821, ToolRuntime), (822, ToolContext)):

        def pay(run, context: kind, number: int) -> str:
            run.connection.execute("INSERT INTO orders (number) VALUES (%s)", (number,))
            return "paid"

        tool = agents.idempotent(connect, scope=lambda context: context.session)(pay)
        got = [await tool(context=kind(f"call_{kind.__name__}"), number=number) for _ in range(2)]
        same(f"tools: {kind.__name__}, resumed", got, ["paid", "paid"])
        text = await tool(context=kind(f"call_{kind.__name__}"), number=number + 10)
        check(f"tools: {kind.__name__}, edited, is refused by a text", text.startswith("pay: refused, nothing was done"), text)


async def waiters():
    """Calls that wait for another process hold no connection."""
    with ConnectionPool("", min_size=0, max_size=2, open=True) as small, connect() as other:
        for number in range(3):
            Idem(other).begin(f"waiter {number}", scope="tools")
        waiting = [asyncio.create_task(asyncio.to_thread(once, small, f"waiter {number}", lambda run: 1, scope="tools", wait="60 s")) for number in range(3)]
        await asyncio.sleep(0.5)
        started = time.monotonic()
        free = await asyncio.to_thread(once, small, "free", lambda run: 2, scope="tools")
        check("tools: calls that wait hold no connection", free.value == 2 and time.monotonic() - started < 10, time.monotonic() - started)
        other.rollback()
        same("tools: and are done when the other is gone", [done.value for done in await asyncio.gather(*waiting)], [1, 1, 1])


def wrong(pool):
    def tool(run, number: int):
        pass

    def own(run, idempotency_key: str):
        pass

    def told(**options):
        function = options.pop("function", tool)
        try:
            mcp.idempotent(pool, **{"scope": "a", "key": "argument", **options})(function)
        except TypeError as error:
            return str(error)
        return "nothing"

    got = [told(key="id"), told(key="call"), told(identity=["item"]), told(lease="1 s"), told(scope=""), told(function=own)]
    expected = ['"key" is', 'key="call" needs', '"identity" of tool names "item"', 'the tool tool needs a parameter "work"', '"scope" is', "own has an idempotency_key"]
    same("tools: a wrong use is a TypeError", [text[: len(start)] for text, start in zip(got, expected)], expected)
