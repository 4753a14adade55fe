# The reference app of `idem http-test --reference` for Rack, with Puma, pg and connection_pool.
require 'connection_pool'
require 'json'
require 'pg'
require 'puma'
require 'rack'
require_relative '../../../examples/ruby/idempotency'

PROFILE = ENV.fetch('PROFILE')
ENV['PGSSLMODE'] = 'disable'
def connect(name) = PG.connect(application_name: name)

OWN = ConnectionPool.new(size: 10) { connect('reference') }
POOL = ConnectionPool.new(size: 3, timeout: 30) { connect('conformance') }
TRANSACTION = lambda do |&work|
  POOL.with do |db|
    db.reset unless db.status == PG::CONNECTION_OK
    db.transaction { work.call(db) }
  end
end
Thrown = Class.new(StandardError) { attr_accessor :status }
RUNS, LOCK = Hash.new(0), Mutex.new

OWN.with do |db|
  db.exec('CREATE TABLE IF NOT EXISTS effects (id int GENERATED ALWAYS AS IDENTITY, key text)')
  db.exec("SELECT idem.idem_http_scope_set('conformance', profile => '#{PROFILE}')")
end

def insert(db, key) = db.exec_params('INSERT INTO effects (key) VALUES ($1) RETURNING id', [key]).getvalue(0, 0).to_i

def ran(env) = LOCK.synchronize { RUNS[env['idem'].key] += 1 }

def input(env) = JSON.parse(env['rack.input'].read)

def answer(given, id)
  body = JSON.dump(id: id, item: given['item']).ljust(given['bytes'] || 0)
  [given['status'] || 201, { 'Content-Type' => 'application/json', 'Location' => "/orders/#{id}" }, [body]]
end

WORK = lambda do |env|
  given = input(env)
  ran(env)
  id = insert(env['idem'].connection, env['idem'].key)
  sleep given['pause'] / 1000.0 if given['pause']
  raise Thrown.new.tap { |error| error.status = given['throw'] } if given['throw']

  answer(given, id)
end

LATE = lambda do |env|
  connection, key = env['idem'].connection, env['idem'].key
  Thread.new do
    sleep 0.2
    insert(connection, key)
  rescue StandardError
    nil
  end
  WORK.call(env)
end

LEASED = lambda do |env|
  given, idem = input(env), env['idem']
  ran(env)
  sleep given['pause'] / 1000.0 if given['pause']
  idem.with_response { |db| insert(db, idem.key) }
  answer(given, idem.fence.to_i)
end

STREAM = lambda do |env|
  ran(env)
  id = insert(env['idem'].connection, env['idem'].key)
  parts = Enumerator.new { |out| ['a', 'b', "c #{id}"].each { |part| out << part && sleep(0.005) } }
  [201, { 'Content-Type' => 'text/plain' }, parts]
end

EFFECTS = lambda do |env|
  key = Rack::Utils.parse_query(env['QUERY_STRING'])['key']
  count = OWN.with { |db| db.exec_params('SELECT count(*) FROM effects WHERE key = $1', [key]).getvalue(0, 0).to_i }
  [200, { 'Content-Type' => 'application/json' }, [JSON.dump(count: count, runs: LOCK.synchronize { RUNS[key] })]]
end

SCOPE = lambda do |env|
  scope = "conformance/#{env['HTTP_AUTHORIZATION']}"
  %w[acp ucp].include?(PROFILE) ? "#{scope} #{env['REQUEST_METHOD']} #{env['PATH_INFO']}" : scope
end

def once(app, **options)
  guarded = Idempotency.new(app, transaction: TRANSACTION, scope: SCOPE, **options)
  lambda do |env| # what makes exceptions responses is outside
    guarded.call(env)
  rescue Thrown => e
    [e.status, { 'Content-Type' => 'text/plain' }, ["thrown #{rand}"]]
  end
end

def hook(&press)
  lambda do |_|
    press.call
    [204, {}, []]
  end
end

DISCONNECT = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'conformance'"
ROUTES = {
  '/orders' => once(WORK), '/other' => once(WORK), '/late' => once(LATE), '/stream' => once(STREAM), '/double' => once(once(WORK)),
  '/leased' => once(LEASED, lease: 1, wait: 10), '/effects' => EFFECTS,
  '/hooks/kill' => hook { Process.kill('KILL', Process.pid) },
  '/hooks/disconnect' => hook { OWN.with { |db| db.exec(DISCONNECT) } },
  '/hooks/lose-commit' => hook { Process.kill('USR1', ENV['CUTTER'].to_i) }
}.freeze

server = Puma::Server.new(->(env) { (ROUTES[env['PATH_INFO']] || ->(_) { [404, {}, []] }).call(env) }, Puma::Events.strings)
server.min_threads = server.max_threads = 24
port = server.add_tcp_listener('127.0.0.1', ENV.fetch('PORT').to_i).addr[1]
$stdout.puts port
$stdout.flush
server.run.join
