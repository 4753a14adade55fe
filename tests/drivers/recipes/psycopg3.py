import sys

import psycopg

key, id, amount = sys.argv[1], int(sys.argv[2]), 10
connection = psycopg.connect("")
# RECIPE
