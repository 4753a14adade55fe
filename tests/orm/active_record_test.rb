# docs/orm.md, ActiveRecord.

require "active_record"
require "pg"
require "stringio"

ActiveRecord::Base.establish_connection(adapter: "postgresql", host: ENV["PGHOST"], port: ENV["PGPORT"],
                                        username: ENV["PGUSER"], database: ENV["PGDATABASE"])
ActiveRecord::Migration.verbose = false

# ActiveRecord counts, from 0 on.
class Order < ActiveRecord::Base
  self.locking_column = :version
end

# The guard counts: the version is a column like others.
class PlainOrder < ActiveRecord::Base
end

class CreateOrders < ActiveRecord::Migration[6.1]
  def up
    create_table(:orders) do |table|
      table.text :state, null: false, default: "created"
      table.text :note
      table.integer :version, null: false, default: 0
    end
    execute "SELECT idem.optimistic_enable('orders'), idem.idem_machine_attach('orders', 'state', 'order')"
    create_table(:plain_orders) do |table|
      table.text :note
      table.integer :version, null: false, default: 1
    end
    execute "SELECT idem.optimistic_enable('plain_orders')"
  end
end

OTHER = PG.connect
TESTS = []

def test(name, &block) = TESTS << [name, block]

def same(found, expected)
  raise "#{found.inspect} is not #{expected.inspect}" unless found == expected
end

def raises(kind)
  yield
rescue kind => error
  error
else
  raise "#{kind} was not raised"
end

# The rows of a statement of another session, under autocommit.
def sql(statement) = OTHER.exec(statement).values

def guards = sql(File.read(ENV["IDEM_GUARDS"]))[0][0].to_i

def sqlstate(error) = error.cause.result.error_field(PG::Result::PG_DIAG_SQLSTATE)

def claim(key)
  ActiveRecord::Base.connection.select_value(ActiveRecord::Base.sanitize_sql(["SELECT idem.idem_claim(?)", key]))
end

test "locking_column counts itself, and the object has the new version" do
  order = Order.create!
  same(order.version, 0)
  order.update!(note: "a")
  order.update!(note: "b")
  same([order.version, sql("SELECT note, version FROM orders WHERE id = #{order.id}")], [2, [["b", "2"]]])
end

test "a stale object is StaleObjectError" do
  order = Order.create!
  sql("UPDATE orders SET note = 'other' WHERE id = #{order.id}")
  raises(ActiveRecord::StaleObjectError) { order.update!(note: "mine") }
  same(order.reload.attributes.values_at("note", "version"), ["other", 1])
end

test "update_all and update_columns leave the version to the guard; the object is stale afterwards" do
  order = Order.create!
  Order.where(id: order.id).update_all(note: "bulk")
  order.reload.update_columns(note: "columns")
  same([order.version, order.class.find(order.id).version], [1, 2])
  raises(ActiveRecord::StaleObjectError) { order.update!(note: "mine") }
end

test "without locking_column the guard counts, the object is stale until it is reloaded, and the last write wins" do
  order = PlainOrder.create!
  sql("UPDATE plain_orders SET note = 'other' WHERE id = #{order.id}")
  order.update!(note: "mine")
  same([order.version, order.reload.version], [1, 3])
end

test "two state changes before one save are one UPDATE: ID003" do
  order = Order.create!
  order.state = "paid"
  order.state = "shipped"
  error = raises(ActiveRecord::StatementInvalid) { order.save! }
  same(sqlstate(error), "ID003")
end

test "a save after each state change makes both transitions" do
  order = Order.create!
  Order.transaction do
    order.update!(state: "paid")
    order.update!(state: "shipped")
  end
  same(sql("SELECT state, version FROM orders WHERE id = #{order.id}"), [["shipped", "2"]])
end

test "the SQLSTATE is in cause.result" do
  order = Order.create!
  error = raises(ActiveRecord::StatementInvalid) { Order.where(id: order.id).update_all(version: 7) }
  same([sqlstate(error), error.cause.result.error_field(PG::Result::PG_DIAG_TABLE_NAME)], ["ID004", "orders"])
end

test "a fixture in another state: insert_all and create! raise ID003; through the states it is inserted" do
  same(sqlstate(raises(ActiveRecord::StatementInvalid) { Order.insert_all!([{ state: "shipped" }]) }), "ID003")
  same(sqlstate(raises(ActiveRecord::StatementInvalid) { Order.create!(state: "shipped") }), "ID003")
  order = Order.create!
  %w[paid shipped].each { |state| order.update!(state: state) }
  same(order.reload.state, "shipped")
end

test "disable_referential_integrity, which loads fixtures, disables the guards: a row in no state of the machine is inserted" do
  ActiveRecord::Base.connection.disable_referential_integrity { Order.insert_all!([{ id: 1000, state: "no such state" }]) }
  same([sql("SELECT state FROM orders WHERE id = 1000"), guards], [[["no such state"]], 2])
  sql("DELETE FROM orders WHERE id = 1000")
end

test "a fixture while the machine is detached; attaching checks its states" do
  load = lambda do |state|
    Order.transaction do
      Order.connection.execute("SELECT idem.idem_machine_detach('orders', 'state')")
      Order.insert_all!([{ state: state }])
      Order.connection.execute("SELECT idem.idem_machine_attach('orders', 'state', 'order')")
    end
  end
  same(sqlstate(raises(ActiveRecord::StatementInvalid) { load.call("no such state") }), "23514")
  load.call("shipped")
  same(guards, 2)
end

test "a claim belongs to the block's transaction" do
  Order.transaction do
    same(claim("active record 1"), true)
    raise ActiveRecord::Rollback
  end
  Order.transaction do
    same(claim("active record 1"), true)
    Order.create!
  end
  same(claim("active record 1"), false)
end

test "the query cache answers a second claim from the first; uncached asks the database" do
  ActiveRecord::Base.cache do
    same([claim("active record 2"), claim("active record 2")], [true, true])
    same(ActiveRecord::Base.uncached { claim("active record 2") }, false)
  end
end

def schema
  stream = StringIO.new
  base = ActiveRecord::Base
  ActiveRecord::SchemaDumper.dump(ActiveRecord.version >= Gem::Version.new("7.2") ? base.connection_pool : base.connection, stream)
  stream.string
end

test "schema.rb has no guard, and with idem on the search_path idem's tables" do
  same([schema.include?('create_table "orders"'), schema.include?("machine"), schema.include?("idem_keys")], [true, false, false])
  ActiveRecord::Base.connection.schema_search_path = "public, idem"
  same(schema.include?("idem_keys"), true)
  ActiveRecord::Base.connection.schema_search_path = "public"
end

test "schema.rb names the extension without its schema, and from 7.2 on the schema, which then must not exist" do
  same([schema.include?('enable_extension "idem"'), schema.include?('create_schema "idem"')],
       [true, ActiveRecord.version >= Gem::Version.new("7.2")])
end

test "loading schema.rb drops the guards with the table, without a word" do
  loaded = schema.lines.grep_v(/enable_extension|create_schema/).join
  same(guards, 2)
  ActiveRecord::Schema.verbose = false
  eval(loaded)
  same(guards, 0)
end

CreateOrders.new.up
puts "1..#{TESTS.size}"
failed = false
TESTS.each_with_index do |(name, block), index|
  block.call
  puts "ok #{index + 1} - ActiveRecord: #{name}"
rescue StandardError => error
  failed = true
  puts "not ok #{index + 1} - ActiveRecord: #{name}", error.full_message(highlight: false).lines.map { |line| "  # #{line}" }
end
exit !failed
