<?php
declare(strict_types=1);

use Psr\Http\Message\{ResponseInterface, ServerRequestInterface};
use Psr\Http\Server\{MiddlewareInterface, RequestHandlerInterface};

/**
 * What the handler has, as the request's attribute `idem`. Write with this connection alone: what another one writes is not protected.
 */
final class Exchange
{
    public function __construct(public readonly PDO $db, public readonly string $scope, public readonly ?string $key)
    {
    }
}

/**
 * The Idempotency-Key header as a PSR-15 middleware: Slim, Mezzio; Laravel and Symfony through their PSR bridges. Copy this file; it needs pdo_pgsql.
 *
 * Key, rows and response commit in one transaction. An exception rolls back; a response is stored, whatever its status. The middleware belongs inside of
 * authentication, compression and what makes exceptions responses. It has no leased mode: PHP cannot renew a lease while a gateway works. Publish a message
 * in the transaction, and let a worker call the gateway.
 */
final class Idempotency implements MiddlewareInterface
{
    private const UNKEYED = ['GET', 'HEAD', 'OPTIONS', 'TRACE'];

    /**
     * @param Closure(): PDO $connect the connection of this request; called again when it was lost in COMMIT. Without ATTR_PERSISTENT
     * @param Closure(ServerRequestInterface): string $scope names the authenticated client
     * @param Closure(int, array<string, string|string[]>, string): ResponseInterface $respond makes a response
     */
    public function __construct(
        private Closure $connect,
        private Closure $scope,
        private Closure $respond,
        private string $schema = 'idem',
        private int $maxBody = 1 << 20,
        private ?Closure $log = null,
    ) {
        $this->log ??= error_log(...);
    }

    public function process(ServerRequestInterface $request, RequestHandlerInterface $handler): ResponseInterface
    {
        $lines = $request->getHeader('Idempotency-Key');
        if ($request->getAttribute('idem') !== null || $lines === [] && in_array($request->getMethod(), self::UNKEYED, true)) {
            return $handler->handle($request); // mounted twice: the key is open
        }
        $body = (string) $request->getBody();
        if (strlen($body) > $this->maxBody) {
            return $this->problem(413, 'body_too_large', "The body is over $this->maxBody bytes.");
        }
        $request->getBody()->rewind();
        $call = [
            'scope' => ($this->scope)($request), 'method' => $request->getMethod(), 'route' => $request->getRequestTarget(),
            'field' => $lines === [] ? null : implode(', ', $lines), 'body' => $body, 'type' => $request->getHeaderLine('Content-Type') ?: null,
        ];
        $stage = 'begin';
        try {
            $db = ($this->connect)();
            $db->beginTransaction();
            $begun = $this->begin($db, $call);
            if ($begun['action'] !== 'run') {
                $begun['code'] === 'in_doubt' ? $db->commit() : $db->rollBack(); // COMMIT records the doubt
                return ($this->respond)((int) $begun['status'], $begun['headers'], $begun['body']);
            }
            $stage = 'run';
            $exchange = new Exchange($db, $call['scope'], $begun['key']);
            $response = $this->whole($handler->handle($request->withAttribute('idem', $exchange)));
            foreach ($begun['headers'] as $name => $value) {
                $response = $response->hasHeader($name) ? $response : $response->withHeader($name, $value);
            }
            $encoding = $response->getHeaderLine('Content-Encoding');
            if ($encoding !== '' && $encoding !== 'identity') {
                $db->rollBack();
                return $this->problem(500, 'response_encoded', 'compression belongs outside of the middleware.');
            }
            $stage = 'complete';
            $this->complete($db, $call, $begun['key'], $response);
            $stage = 'commit';
            $db->commit();
            return $response;
        } catch (PDOException $error) {
            $state = $this->state($error);
            if ($stage === 'commit' && $state === null) {
                return $this->lookUp($call, $begun['key'], $response);
            }
            $this->rollBack($db ?? null);
            if ($stage === 'complete' && ($state === '25000' || $state === '25P02' && $response->getStatusCode() >= 400)) {
                return $response; // a status that the scope does not store, or an error of a statement that the handler has answered: nothing was done
            }
            return $this->failed($error, $state);
        } catch (Throwable $error) {
            $this->rollBack($db);
            throw $error;
        }
    }

    /** @return array{action: string, status: ?int, headers: array, body: string, code: ?string, key: ?string} */
    private function begin(PDO $db, array $call): array
    {
        $begin = $db->prepare("SELECT *, $this->schema.idem_http_key(:field, :scope) AS key FROM $this->schema.idem_http_begin("
            . ':scope, :method, :route, :field, body_bytes => :body, content_type => :type)');
        foreach ($call as $name => $value) {
            // Bytes as a large object: a string would be read as a literal of bytea.
            $begin->bindValue($name, $name === 'body' && $value === '' ? null : $value, $name === 'body' ? PDO::PARAM_LOB : PDO::PARAM_STR);
        }
        $begin->execute();
        $row = $begin->fetch(PDO::FETCH_ASSOC);
        $headers = array_map(fn ($value) => array_map(strval(...), (array) $value), json_decode($row['headers'] ?? '{}', true));
        if ($row['action'] !== 'run' && $row['body_bytes'] === null) {
            unset($headers['Content-Type'], $headers['Content-Encoding']);
        }
        $body = $row['body_bytes'] === null ? '' : stream_get_contents($row['body_bytes']); // PDO returns bytes as a stream
        return ['headers' => $headers, 'body' => $body, 'key' => $row['code'] === 'unkeyed' ? null : $row['key']] + $row;
    }

    private function complete(PDO $db, array $call, ?string $key, ResponseInterface $response): void
    {
        $complete = $db->prepare("SELECT $this->schema.idem_http_complete(:scope, :field, :status, :headers, body_bytes => :body)");
        $body = (string) $response->getBody();
        $complete->bindValue('scope', $call['scope']);
        $complete->bindValue('field', $key === null ? null : $call['field']);
        $complete->bindValue('status', $response->getStatusCode(), PDO::PARAM_INT);
        $complete->bindValue('headers', json_encode((object) $response->getHeaders(), JSON_THROW_ON_ERROR));
        $complete->bindValue('body', $body === '' ? null : $body, PDO::PARAM_LOB);
        $complete->execute();
    }

    /** A response whose body can be read again: it is stored before it is sent. */
    private function whole(ResponseInterface $response): ResponseInterface
    {
        $body = $response->getBody();
        return $body->isSeekable() ? $response : $response->withBody(($this->respond)(200, [], (string) $body)->getBody());
    }

    /** The connection was lost in COMMIT. */
    private function lookUp(array $call, ?string $key, ResponseInterface $response): ResponseInterface
    {
        if ($key === null) {
            return $this->problem(500, 'commit_unknown', 'The connection was lost in COMMIT. The request may have been processed.');
        }
        foreach ([0, 200_000, 800_000] as $pause) {
            usleep($pause);
            try {
                $db = ($this->connect)();
                $db->beginTransaction();
                $action = $this->begin($db, $call)['action'];
                $db->rollBack();
                if ($action === 'replay') {
                    return $response;
                }
                if ($action === 'run') {
                    return $this->later('not_committed', 'The connection was lost in COMMIT, which did not happen. Nothing was done.');
                }
            } catch (PDOException $error) {
                ($this->log)("idem: could not look up a COMMIT: {$error->getMessage()}");
            }
        }
        return $this->later('commit_unknown', 'The connection was lost in COMMIT. Repeat the request with the same key.');
    }

    /** The SQLSTATE of the server; null: the connection was lost. PDO invents HY000 then. */
    private function state(PDOException $error): ?string
    {
        $state = (string) $error->getCode();
        return preg_match('/^(?!HY|08|57P)[0-9A-Z]{5}$/', $state) ? $state : null;
    }

    private function rollBack(?PDO $db): void
    {
        try {
            if ($db?->inTransaction()) {
                $db->rollBack();
            }
        } catch (PDOException) {
            // The connection is lost, and its transaction with it.
        }
    }

    private function failed(PDOException $error, ?string $state): ResponseInterface
    {
        ($this->log)("idem: {$error->getMessage()}");
        return match (true) {
            in_array($state, ['40001', '40P01'], true) => $this->later('serialization_failure', 'The transaction met another one and was rolled back.'),
            $state === null || $state === '25006' || str_starts_with($state, '53') => $this->later('unavailable', 'The database could not be reached. Nothing was done.'),
            default => $this->problem(500, 'internal', 'The request was not processed. The log of the server has the reason.'),
        };
    }

    private function later(string $code, string $detail): ResponseInterface
    {
        return $this->problem(503, $code, $detail)->withHeader('Retry-After', '1');
    }

    private function problem(int $status, string $code, string $detail): ResponseInterface
    {
        $body = json_encode(['type' => 'about:blank', 'status' => $status, 'code' => $code, 'detail' => $detail]);
        return ($this->respond)($status, ['Content-Type' => 'application/problem+json'], $body);
    }
}
