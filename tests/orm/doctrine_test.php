<?php

// docs/orm.md, Doctrine.

error_reporting(E_ALL & ~E_DEPRECATED);

require_once 'Doctrine/ORM/autoload.php';

use Doctrine\DBAL\DriverManager;
use Doctrine\DBAL\Exception\DriverException;
use Doctrine\ORM\Configuration;
use Doctrine\ORM\EntityManager;
use Doctrine\ORM\Mapping as ORM;
use Doctrine\ORM\Mapping\Driver\AttributeDriver;
use Doctrine\ORM\OptimisticLockException;
use Doctrine\ORM\Tools\SchemaTool;

/** Doctrine counts. */
#[ORM\Entity]
#[ORM\Table(name: 'orders')]
class ShopOrder
{
    #[ORM\Id, ORM\Column]
    public int $id;
    #[ORM\Column(type: 'text', options: ['default' => 'created'])]
    public string $state = 'created';
    #[ORM\Column(type: 'text', nullable: true)]
    public ?string $note = null;
    #[ORM\Version, ORM\Column(type: 'integer')]
    public int $version;

    public function __construct(int $id, string $state = 'created')
    {
        $this->id = $id;
        $this->state = $state;
    }
}

/** The guard counts: an ordinary column. */
#[ORM\Entity]
#[ORM\Table(name: 'plain_orders')]
class Plain
{
    #[ORM\Id, ORM\Column]
    public int $id;
    #[ORM\Column(type: 'text', nullable: true)]
    public ?string $note = null;
    #[ORM\Column]
    public int $version = 1;
}

$connection = ['driver' => 'pdo_pgsql', 'host' => getenv('PGHOST'), 'port' => getenv('PGPORT'), 'user' => getenv('PGUSER'),
    'dbname' => getenv('PGDATABASE')];

function manager(): EntityManager
{
    global $connection;
    $configuration = new Configuration();
    $configuration->setMetadataDriverImpl(new AttributeDriver([__DIR__]));
    $configuration->setProxyDir(sys_get_temp_dir());
    $configuration->setProxyNamespace('Proxies');
    $configuration->setAutoGenerateProxyClasses(Doctrine\ORM\Proxy\ProxyFactory::AUTOGENERATE_EVAL);
    return new EntityManager(DriverManager::getConnection($connection, $configuration), $configuration);
}

$other = new PDO(sprintf('pgsql:host=%s;port=%s;dbname=%s', getenv('PGHOST'), getenv('PGPORT'), getenv('PGDATABASE')), getenv('PGUSER'));

/** The rows of a statement of another session, under autocommit. */
function sql(string $statement): array
{
    global $other;
    return $other->query($statement)->fetchAll(PDO::FETCH_NUM);
}

function guards(): int
{
    return (int) sql(file_get_contents(getenv('IDEM_GUARDS')))[0][0];
}

function same(mixed $found, mixed $expected): void
{
    if ($found !== $expected) {
        throw new Exception(json_encode($found) . ' is not ' . json_encode($expected));
    }
}

function raises(string $kind, callable $work): Throwable
{
    try {
        $work();
    } catch (Throwable $error) {
        if ($error instanceof $kind) {
            return $error;
        }
        throw $error;
    }
    throw new Exception("$kind was not thrown");
}

function saved(object $order): array
{
    $manager = manager();
    $manager->persist($order);
    $manager->flush();
    return [$manager, $order];
}

function claim(EntityManager $manager, string $key): bool
{
    return $manager->getConnection()->fetchOne('SELECT idem.idem_claim(?)', [$key]);
}

function schema(EntityManager $manager): array
{
    $classes = $manager->getMetadataFactory()->getAllMetadata();
    return [new SchemaTool($manager), array_filter($classes, fn ($class) => in_array($class->getName(), [ShopOrder::class, Plain::class]))];
}

function enable_guards(): void
{
    sql("SELECT idem.optimistic_enable('orders'), idem.idem_machine_attach('orders', 'state', 'order')");
}

$tests = [
    '#[Version] counts itself, and the object has the new version' => function () {
        [$manager, $order] = saved(new ShopOrder(1));
        same($order->version, 1);
        foreach (['a', 'b'] as $note) {
            $order->note = $note;
            $manager->flush();
        }
        same([$order->version, sql('SELECT note, version FROM orders WHERE id = 1')], [3, [['b', 3]]]);
    },
    'a stale object is OptimisticLockException' => function () {
        [$manager, $order] = saved(new ShopOrder(2));
        sql("UPDATE orders SET note = 'other' WHERE id = 2");
        $order->note = 'mine';
        raises(OptimisticLockException::class, fn () => $manager->flush());
    },
    'a DQL UPDATE leaves the version to the guard, and the last write wins' => function () {
        [$manager] = saved(new ShopOrder(3));
        $manager->createQuery("UPDATE ShopOrder o SET o.note = 'bulk' WHERE o.id = 3")->execute();
        same(sql('SELECT version FROM orders WHERE id = 3'), [[2]]);
    },
    'with an ordinary column the guard counts, the object is stale until it is refreshed, and the last write wins' => function () {
        $plain = new Plain();
        $plain->id = 1;
        [$manager] = saved($plain);
        sql("UPDATE plain_orders SET note = 'other' WHERE id = 1");
        $plain->note = 'mine';
        $manager->flush();
        same($plain->version, 1);
        $manager->refresh($plain);
        same([$plain->note, $plain->version], ['mine', 3]);
    },
    'two state changes in one flush are one UPDATE: ID003 in getSQLState()' => function () {
        [$manager, $order] = saved(new ShopOrder(4));
        $order->state = 'paid';
        $order->state = 'shipped';
        same(raises(DriverException::class, fn () => $manager->flush())->getSQLState(), 'ID003');
    },
    'a flush after each state change makes both transitions' => function () {
        [$manager, $order] = saved(new ShopOrder(5));
        foreach (['paid', 'shipped'] as $state) {
            $order->state = $state;
            $manager->flush();
        }
        same(sql('SELECT state, version FROM orders WHERE id = 5'), [['shipped', 3]]);
    },
    'ID004 is in getSQLState()' => function () {
        [$manager] = saved(new ShopOrder(6));
        $stale = fn () => $manager->getConnection()->executeStatement('UPDATE orders SET version = 7 WHERE id = 6');
        same(raises(DriverException::class, $stale)->getSQLState(), 'ID004');
    },
    'a fixture in another state is ID003, and closes the entity manager; through the states it is inserted' => function () {
        $manager = manager();
        $manager->persist(new ShopOrder(7, 'shipped'));
        same(raises(DriverException::class, fn () => $manager->flush())->getSQLState(), 'ID003');
        same($manager->isOpen(), false);
        [$manager, $order] = saved(new ShopOrder(7));
        foreach (['paid', 'shipped'] as $state) {
            $order->state = $state;
            $manager->flush();
        }
    },
    'a fixture while the machine is detached; attaching checks its states' => function () {
        $load = fn (string $state) => manager()->wrapInTransaction(function (EntityManager $manager) use ($state) {
            $manager->getConnection()->executeStatement("SELECT idem.idem_machine_detach('orders', 'state')");
            $manager->persist(new ShopOrder(8, $state));
            $manager->flush();
            $manager->getConnection()->executeStatement("SELECT idem.idem_machine_attach('orders', 'state', 'order')");
        });
        same(raises(DriverException::class, fn () => $load('no such state'))->getSQLState(), '23514');
        $load('shipped');
        same(guards(), 2);
    },
    'a claim belongs to wrapInTransaction()' => function () {
        raises(DomainException::class, fn () => manager()->wrapInTransaction(function (EntityManager $manager) {
            same(claim($manager, 'doctrine 1'), true);
            throw new DomainException('the work fails');
        }));
        $work = fn (EntityManager $manager) => same(claim($manager, 'doctrine 1'), true);
        manager()->wrapInTransaction($work);
        same(claim(manager(), 'doctrine 1'), false);
    },
    'outside a transaction the claim is committed although the flush fails' => function () {
        $manager = manager();
        claim($manager, 'doctrine 2');
        $manager->persist(new ShopOrder(9, 'shipped'));
        raises(DriverException::class, fn () => $manager->flush());
        same(claim(manager(), 'doctrine 2'), false);
    },
    'updateSchema() keeps the guards, and has nothing to change in the schema of idem, also where that is on the search_path' => function () {
        foreach (['public', 'public, idem'] as $search_path) {
            $manager = manager();
            $manager->getConnection()->executeStatement("SET search_path = $search_path");
            [$tool, $classes] = schema($manager);
            same($tool->getUpdateSchemaSql($classes), []);
        }
        same(guards(), 2);
    },
    'dropSchema() drops the guards with the table' => function () {
        [$tool, $classes] = schema(manager());
        $tool->dropSchema($classes);
        $tool->createSchema($classes);
        same(guards(), 0);
    },
];

[$tool, $classes] = schema(manager());
$tool->createSchema($classes);
enable_guards();
sql("SELECT idem.optimistic_enable('plain_orders')");

echo '1..' . count($tests) . "\n";
$number = 0;
$failed = 0;
foreach ($tests as $name => $test) {
    $number++;
    try {
        $test();
        echo "ok $number - Doctrine: $name\n";
    } catch (Throwable $error) {
        $failed = 1;
        echo "not ok $number - Doctrine: $name\n  # " . str_replace("\n", "\n  # ", (string) $error) . "\n";
    }
}
exit($failed);
