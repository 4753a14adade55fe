"""Sends each file as one call of psycopg; then claims a key twice."""

import sys

import psycopg

with psycopg.connect(autocommit=True) as connection:
    for name in sys.argv[1:]:
        with open(name, encoding='utf-8') as file:
            connection.execute(file.read())
    print(*[connection.execute("SELECT idem.idem_claim('order 7')").fetchone()[0] for _ in range(2)])
