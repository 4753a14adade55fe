"""Many clients at once that click twice, cut their connections and come again, while the server is killed.

Afterwards: one row per key, all answers of a key byte for byte the same, and no error but 409, 503 and cut connections.
"""

import asyncio
import json
import random
import uuid

from http_client import Cut, send
from tap import check, same

AT_ONCE = 16
KINDS = ("json", "pdf", "empty")
STORED = ("content-type", "content-encoding", "location")


async def storm(name, server, path, requests, count_rows, kills=3, most_rows=1):
    clients = _Clients(server, path, requests)
    await asyncio.gather(clients.all(), _kill(server, clients, kills))
    rows = count_rows()
    got = sorted(rows.get(number, 0) for number in clients.numbers)
    check(f"{name}: each of {requests} requests had its effect", got and got[0] >= 1, f"rows: {got[:5]} …")
    check(f"{name}: none had it twice", got and got[-1] <= most_rows, [n for n in clients.numbers if rows.get(n, 0) > most_rows][:5])
    same(f"{name}: all {clients.answers} answers are those of their request, byte for byte", clients.different[:3], [])
    same(f"{name}: no errors but 409, 503 and cut connections", clients.errors[:5], [])
    check(f"{name}: there were replays, conflicts and cuts", clients.replays and clients.conflicts and clients.cuts, vars(clients))
    print(f"# {clients.replays} replays, {clients.conflicts} times 409, {clients.unavailable} times 503, {clients.cuts} cut connections")


class _Clients:
    def __init__(self, server, path, requests):
        self.numbers = range(requests)
        self.done = self.answers = self.replays = self.conflicts = self.unavailable = self.cuts = 0
        self.different, self.errors = [], []
        self._server, self._path = server, path
        self._random = random.Random(requests)

    async def all(self):
        limit = asyncio.Semaphore(AT_ONCE)

        async def one(number):
            async with limit:
                await self._client(number)
                self.done += 1

        await asyncio.gather(*(one(number) for number in self.numbers))

    async def _client(self, number):
        """Sends its request until it has an answer; some twice at once, some with a connection that is cut; and once more."""
        key = str(uuid.uuid4())
        slow = 0.1 if number % 10 == 3 else 0
        body = json.dumps({"number": number, "kind": KINDS[number % len(KINDS)], "slow": slow}).encode()
        answers = []
        if number % 4 == 1:
            await self._attempt(key, body, answers, cut_after=self._random.uniform(0.001, 0.06))
        await asyncio.gather(*(self._until_answered(key, body, answers) for _ in range(2 if number % 2 == 0 else 1)))
        await self._until_answered(key, body, answers)
        first = answers[0]
        self.answers += len(answers)
        self.different += [(number, answer, first) for answer in answers if answer != first]

    async def _until_answered(self, key, body, answers):
        while not await self._attempt(key, body, answers):
            await asyncio.sleep(self._random.uniform(0.02, 0.2))

    async def _attempt(self, key, body, answers, cut_after=None):
        try:
            answer = await send(
                self._server.port, "POST", self._path, [("Idempotency-Key", f'"{key}"'), ("Content-Type", "application/json")],
                body, cut_after,
            )  # fmt: skip
        except Cut:
            self.cuts += 1
            return False
        if 200 <= answer.status < 300:
            self.replays += answer.headers.get("idempotent-replayed") == "true"
            answers.append((answer.status, [answer.headers.get(name) for name in STORED], answer.body))
            return True
        if answer.status == 409:
            self.conflicts += 1
        elif answer.status == 503:
            self.unavailable += 1
        else:
            self.errors.append((answer.status, answer.body[:200]))
            return len(self.errors) > 50
        if "retry-after" not in answer.headers:
            self.errors.append((answer.status, "no Retry-After"))
        return False


async def _kill(server, clients, kills):
    for number in range(1, kills + 1):
        while clients.done < len(clients.numbers) * number // (kills + 1):
            await asyncio.sleep(0.01)
        await asyncio.to_thread(server.restart)
