\set n random(1, :keys)
