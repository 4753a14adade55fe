"""psycopg2: the client puts literals into the statement."""

import re

import psycopg2
from psycopg2.extras import Json

from runner import arguments, serve

connection = psycopg2.connect("")
connection.autocommit = True
convert = {"bigint": int, "bigints": lambda values: [int(value) for value in values], "json": Json, "bytes": bytes.fromhex,
           "jsons": lambda values: [Json(value) for value in values]}


def run(sql, args):
    with connection.cursor() as cursor:
        cursor.execute(re.sub(r"\$\d+", "%s", sql), arguments(args, convert))
        return [column.name for column in cursor.description or []], cursor.fetchall() if cursor.description else []


serve(run, lambda: connection, lambda error: getattr(error, "pgcode", None))
