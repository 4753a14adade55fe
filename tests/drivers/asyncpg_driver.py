"""asyncpg: parameters are encoded in binary, as the type that the server expects."""

import asyncio
import datetime
import json
import os

import asyncpg

from runner import Rollback, answer, answer_rows, arguments, failure, requests, seconds

convert = {"bigint": int, "bigints": lambda values: [int(value) for value in values], "json": json.dumps, "bytes": bytes.fromhex,
           "interval": seconds, "jsons": lambda values: [json.dumps(value) for value in values], "time": datetime.datetime.fromisoformat}
source = requests()


async def loop(connection):
    for request in source:
        if request["do"] == "commit":
            return
        if request["do"] == "rollback":
            raise Rollback
        try:
            if request["do"] == "begin":
                async with connection.transaction():
                    answer({})
                    await loop(connection)
                answer({})
            else:
                rows = await connection.fetch(request["sql"], *arguments(request["args"], convert))
                answer_rows(list(rows[0].keys()) if rows else [], [list(row.values()) for row in rows])
        except Rollback:
            answer({})
        except Exception as error:
            failure(error, lambda error: getattr(error, "sqlstate", None))


async def main():
    connection = await asyncpg.connect(**({"statement_cache_size": 0} if "IDEM_POOLED" in os.environ else {}))
    await loop(connection)
    await connection.close()


asyncio.run(main())
