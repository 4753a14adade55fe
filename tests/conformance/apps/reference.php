<?php
// The reference app of `idem http-test --reference` for PSR-15, with PHP's own server. reference.php.sh starts it.
declare(strict_types=1);

namespace Psr\Http\Server {
    // Debian has no package of these two.
    interface RequestHandlerInterface
    {
        public function handle(\Psr\Http\Message\ServerRequestInterface $request): \Psr\Http\Message\ResponseInterface;
    }
    interface MiddlewareInterface
    {
        public function process(\Psr\Http\Message\ServerRequestInterface $request, RequestHandlerInterface $handler): \Psr\Http\Message\ResponseInterface;
    }
}

namespace {
    require '/usr/share/php/Nyholm/Psr7/autoload.php';
    require __DIR__ . '/../../../examples/php/Idempotency.php';

    use Nyholm\Psr7\{Response, ServerRequest};
    use Psr\Http\Message\{ResponseInterface, ServerRequestInterface};
    use Psr\Http\Server\RequestHandlerInterface;

    final class Thrown extends Exception
    {
    }

    final class Handler implements RequestHandlerInterface
    {
        public function __construct(private Closure $work)
        {
        }

        public function handle(ServerRequestInterface $request): ResponseInterface
        {
            return ($this->work)($request);
        }
    }

    function connect(string $name): PDO
    {
        $dsn = sprintf('pgsql:host=%s;port=%s;dbname=%s;user=%s;application_name=%s', getenv('PGHOST'), getenv('PGPORT') ?: 5432, getenv('PGDATABASE'), getenv('PGUSER'), $name);
        $options = getenv('IDEM_POOLED') ? [PDO::ATTR_EMULATE_PREPARES => true] : [];
        return new PDO($dsn, null, null, $options);
    }

    function own(string $statement, array $values = []): array
    {
        $done = connect('reference')->prepare($statement);
        $done->execute($values);
        return $done->fetchAll(PDO::FETCH_ASSOC);
    }

    // A process serves one request after the other, so counts are in a table that no transaction of the middleware writes.
    function ran(?string $key): void
    {
        own('INSERT INTO runs VALUES (?)', [$key]);
    }

    function insert(PDO $db, ?string $key): int
    {
        $insert = $db->prepare('INSERT INTO effects (key) VALUES (?) RETURNING id');
        $insert->execute([$key]);
        return (int) $insert->fetchColumn();
    }

    $profile = getenv('PROFILE');
    $scope = function (ServerRequestInterface $request) use ($profile): string {
        $scope = 'conformance/' . $request->getHeaderLine('Authorization');
        return in_array($profile, ['acp', 'ucp'], true) ? "$scope {$request->getMethod()} {$request->getUri()->getPath()}" : $scope;
    };
    $middleware = new Idempotency(fn () => connect('conformance'), $scope, fn (int $status, array $headers, string $body) => new Response($status, $headers, $body));
    $once = fn (Closure $work) => fn (ServerRequestInterface $request) => $middleware->process($request, new Handler($work));

    $work = function (ServerRequestInterface $request): ResponseInterface {
        $input = json_decode((string) $request->getBody());
        $idem = $request->getAttribute('idem');
        ran($idem->key);
        $id = insert($idem->db, $idem->key);
        usleep(1000 * ($input->pause ?? 0));
        if (isset($input->throw)) {
            throw new Thrown('thrown', $input->throw);
        }
        $body = str_pad(json_encode(['id' => $id, 'item' => $input->item ?? null]), $input->bytes ?? 0);
        return new Response($input->status ?? 201, ['Content-Type' => 'application/json', 'Location' => "/orders/$id"], $body);
    };
    $stream = function (ServerRequestInterface $request): ResponseInterface {
        $idem = $request->getAttribute('idem');
        ran($idem->key);
        return new Response(201, ['Content-Type' => 'text/plain'], 'abc ' . insert($idem->db, $idem->key));
    };
    $effects = function (ServerRequestInterface $request): ResponseInterface {
        $key = $request->getQueryParams()['key'];
        [$row] = own('SELECT (SELECT count(*) FROM effects WHERE key = ?) AS count, (SELECT count(*) FROM runs WHERE key = ?) AS runs', [$key, $key]);
        return new Response(200, ['Content-Type' => 'application/json'], json_encode($row));
    };
    $hook = fn (Closure $press) => function () use ($press): ResponseInterface {
        $press();
        return new Response(204);
    };
    $routes = [
        '/orders' => $once($work), '/other' => $once($work), '/double' => $once($once($work)), '/stream' => $once($stream), '/effects' => $effects,
        '/hooks/kill' => $hook(fn () => shell_exec('setsid sh -c \'kill -KILL "$SERVER" $(pgrep -P "$SERVER")\'')),
        '/hooks/disconnect' => $hook(fn () => own("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'conformance'")),
        '/hooks/lose-commit' => $hook(fn () => posix_kill((int) getenv('CUTTER'), 10)),
    ];
    $request = new ServerRequest($_SERVER['REQUEST_METHOD'], $_SERVER['REQUEST_URI'], getallheaders(), file_get_contents('php://input'));
    $request = $request->withQueryParams($_GET);
    try { // what makes exceptions responses is outside
        $route = $routes[$request->getUri()->getPath()] ?? fn () => new Response(404);
        $response = $route($request);
    } catch (Thrown $error) {
        $response = new Response($error->getCode(), [], 'thrown ' . random_int(0, PHP_INT_MAX));
    }
    header_remove('X-Powered-By');
    foreach ($response->getHeaders() as $name => $values) {
        foreach ($values as $value) {
            header("$name: $value", false);
        }
    }
    http_response_code($response->getStatusCode()); // after Location, which would make it 302
    echo $response->getBody();
}
