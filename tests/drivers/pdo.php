<?php

// PDO: every parameter is text of unknown type, but for those that are bound with a type.

$db = new PDO(sprintf('pgsql:host=%s;port=%s;dbname=%s', getenv('PGHOST'), getenv('PGPORT'), getenv('PGDATABASE')), getenv('PGUSER'), getenv('PGPASSWORD') ?: null);
if (getenv('IDEM_POOLED')) {
    $db->setAttribute(PDO::ATTR_EMULATE_PREPARES, true);
}

final class Rollback extends Exception
{
}

function answer(array $message): void
{
    echo json_encode($message, JSON_THROW_ON_ERROR), "\n";
}

/** What a parameter is bound as. */
function bound(string $kind, mixed $value): array
{
    return match ($kind) {
        'null' => [null, PDO::PARAM_NULL],
        'bool' => [$value, PDO::PARAM_BOOL],
        'int' => [$value, PDO::PARAM_INT],
        'bigint' => [(int) $value, PDO::PARAM_INT],
        'bytes' => [hex2bin($value), PDO::PARAM_LOB],
        'json' => [json_encode($value), PDO::PARAM_STR],
        'texts', 'bigints', 'jsons' => [array_literal($value), PDO::PARAM_STR],
        default => [(string) $value, PDO::PARAM_STR],
    };
}

/** PDO has no arrays. */
function array_literal(array $elements): string
{
    $quoted = array_map(fn ($element) => '"' . addcslashes(is_string($element) ? $element : json_encode($element), '"\\') . '"', $elements);
    return '{' . implode(',', $quoted) . '}';
}

function value(mixed $value): array
{
    return [get_debug_type($value), is_resource($value) ? bin2hex(stream_get_contents($value)) : $value];
}

function run(PDO $db, string $sql, array $args): array
{
    $statement = $db->prepare(preg_replace('/\$\d+/', '?', $sql));
    foreach ($args as $i => [$kind, $value]) {
        $statement->bindValue($i + 1, ...bound($kind, $value));
    }
    $statement->execute();
    $columns = [];
    for ($i = 0; $i < $statement->columnCount(); $i++) {
        $columns[] = $statement->getColumnMeta($i)['name'];
    }
    return ['columns' => $columns, 'rows' => array_map(fn ($row) => array_map(value(...), $row), $columns ? $statement->fetchAll(PDO::FETCH_NUM) : [])];
}

function transaction(PDO $db): void
{
    $db->beginTransaction();
    try {
        answer([]);
        serve($db);
        $db->commit();
    } catch (Throwable $error) {
        $db->rollBack();
        throw $error;
    }
}

function serve(PDO $db): void
{
    while (($line = fgets(STDIN)) !== false) {
        $request = json_decode($line, flags: JSON_THROW_ON_ERROR);
        try {
            switch ($request->do) {
                case 'commit':
                    return;
                case 'rollback':
                    throw new Rollback();
                case 'begin':
                    transaction($db);
                    answer([]);
                    break;
                default:
                    answer(run($db, $request->sql, $request->args));
            }
        } catch (Rollback $rollback) {
            if ($request->do === 'rollback') {
                throw $rollback;
            }
            answer([]);
        } catch (PDOException $error) {
            answer(['error' => ['sqlstate' => $error->getCode(), 'type' => $error::class, 'message' => $error->getMessage()]]);
        }
    }
}

serve($db);
