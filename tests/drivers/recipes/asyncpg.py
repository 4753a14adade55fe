import asyncio
import sys

import asyncpg

key, id, amount = sys.argv[1], int(sys.argv[2]), 10


async def main():
    connection = await asyncpg.connect()
    # RECIPE
    await connection.close()


asyncio.run(main())
