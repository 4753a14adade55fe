import sys

import psycopg2

key, id, amount = sys.argv[1], int(sys.argv[2]), 10
connection = psycopg2.connect("")
# RECIPE
