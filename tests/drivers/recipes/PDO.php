<?php

[, $key, $id] = $argv;
$amount = 10;
$db = new PDO(sprintf('pgsql:host=%s;port=%s;dbname=%s', getenv('PGHOST'), getenv('PGPORT'), getenv('PGDATABASE')), getenv('PGUSER'), getenv('PGPASSWORD'));
// RECIPE
