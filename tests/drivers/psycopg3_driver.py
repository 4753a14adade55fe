"""psycopg 3: strings are of unknown type, numbers of the smallest type that holds them."""

import datetime
import os
import re

import psycopg
from psycopg.types.json import Jsonb

from runner import arguments, serve

connection = psycopg.connect("", autocommit=True)
if "IDEM_POOLED" in os.environ:
    connection.prepare_threshold = None
convert = {"bigint": int, "bigints": lambda values: [int(value) for value in values], "json": Jsonb, "bytes": bytes.fromhex,
           "jsons": lambda values: [Jsonb(value) for value in values], "time": datetime.datetime.fromisoformat}


def run(sql, args, fetch=True):
    cursor = connection.execute(re.sub(r"\$\d+", "%s", sql), arguments(args, convert))
    return fetch and [column.name for column in cursor.description or []], cursor.fetchall() if cursor.description else []


serve(run, connection.transaction, lambda error: getattr(error, "sqlstate", None), connection.pipeline)
