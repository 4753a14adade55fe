# frozen_string_literal: true

# The Idempotency-Key header for Rack applications: Rails, Sinatra, Hanami, Roda. Copy this file; it needs the gem pg.
#
#   use Idempotency, transaction: TRANSACTION, scope: ->(env) { "shop/#{env['client']}" }
#
# transaction yields a PG::Connection in a transaction, commits when the block returns and rolls back when it raises. Of a pool, and of ActiveRecord:
#
#   POOL = ConnectionPool.new(size: 5) { PG.connect }
#   TRANSACTION = ->(&work) { POOL.with { |db| db.reset unless db.status == PG::CONNECTION_OK; db.transaction { work.call(db) } } }
#   TRANSACTION = ->(&work) { ActiveRecord::Base.transaction { work.call(ActiveRecord::Base.connection.raw_connection) } }
#
# env['idem'] has the connection, the key and, under a lease, the fence. Write with that connection (or ActiveRecord) alone. An exception rolls back; a response
# is stored, whatever its status. The middleware belongs inside of authentication, compression (Rack::Deflater) and what makes exceptions responses.
require 'delegate'
require 'json'
require 'pg'

class Idempotency
  Exchange = Struct.new(:connection, :scope, :key, :fence, :acts) do
    # Under a lease: work in the transaction that stores the response.
    def with_response(&act)
      acts << act
    end
  end
  Call = Struct.new(:scope, :method, :route, :field, :body, :type, :key, :fence, :added)
  UNKEYED = %w[GET HEAD OPTIONS TRACE].freeze
  REPEAT = [0, 0.2, 0.8].freeze # when to look for a COMMIT whose answer was lost, in seconds

  # lease, wait: seconds. With a lease the work runs outside of a transaction, for calls of a payment gateway.
  def initialize(app, transaction:, scope:, lease: nil, wait: 0, schema: 'idem', max_body: 1 << 20, log: ->(line) { warn line })
    @app, @transaction, @scope, @lease, @wait, @max_body, @log = app, transaction, scope, lease, wait, max_body, log
    idem = PG::Connection.quote_ident(schema)
    @begin = "SELECT *, #{idem}.idem_http_key($4, $1) AS key FROM #{idem}.idem_http_begin($1, $2, $3, $4, body_bytes => $5, content_type => $6, " \
             'lease => $7::float8 * interval \'1 s\', wait => $8::float8 * interval \'1 s\')'
    @complete = "SELECT #{idem}.idem_http_complete($1, $2, $3, $4, body_bytes => $5, fence => $6)"
    @renew = "SELECT #{idem}.idem_renew($1, $2, $3::float8 * interval '1 s', $4)"
    @release = "SELECT #{idem}.idem_release($1, $2, $3)"
  end

  def call(env)
    field = env['HTTP_IDEMPOTENCY_KEY']
    return @app.call(env) if env['idem'] || (field.nil? && UNKEYED.include?(env['REQUEST_METHOD'])) # mounted twice: the key is open

    route = env['SCRIPT_NAME'].to_s + env['PATH_INFO']
    route += "?#{env['QUERY_STRING']}" unless env['QUERY_STRING'].to_s.empty?
    body = env['rack.input']&.read(@max_body + 1).to_s.b
    return problem(413, 'body_too_large', "The body is over #{@max_body} bytes.") if body.bytesize > @max_body
    return problem(400, 'body_incomplete', 'The body is not whole.') if env['CONTENT_LENGTH'].to_i > body.bytesize

    env['rack.input'] = StringIO.new(body)
    call = Call.new(@scope.call(env), env['REQUEST_METHOD'], route, field, body, env['CONTENT_TYPE'])
    @lease ? leased(call, env) : transactional(call, env)
  rescue PG::Error => e
    failed(e)
  end

  private

  Answered = Class.new(StandardError) { attr_accessor :response } # rolls back

  def transactional(call, env)
    response = stage = nil
    @transaction.call do |db|
      stage = :begin
      answer = start(db, call, nil, @wait)
      return_rolled_back(answer) unless answer.nil? || answer[:doubt]
      next response = answer[:response] if answer # COMMIT records the doubt

      stage = :run
      lent = SimpleDelegator.new(db)
      response = buffered(@app.call(env.merge('idem' => Exchange.new(lent, call.scope, call.key))), call)
      lent.__setobj__(nil) # by the time of a late use another request may have the connection
      stage = :complete
      complete(db, call, response)
      stage = :commit
    end
    response
  rescue Answered => e
    e.response
  rescue PG::Error => e
    state = state_of(e)
    return response if stage == :complete && (state == '25000' || (state == '25P02' && response[0] >= 400)) # not to be stored, or nothing was done
    raise if stage != :commit || state

    look_up(call, response)
  end

  def return_rolled_back(answer)
    raise Answered.new.tap { |undo| undo.response = answer[:response] }
  end

  # The connection was lost in COMMIT.
  def look_up(call, response)
    return problem(500, 'commit_unknown', 'The connection was lost in COMMIT. The request may have been processed.') if call.key.nil?

    REPEAT.each do |pause|
      sleep pause
      begin
        @transaction.call { |db| return_rolled_back({ response: start(db, call.dup, nil, 0) }) }
      rescue Answered => e
        return response if e.response
        return later('not_committed', 'The connection was lost in COMMIT, which did not happen. Nothing was done.')
      rescue PG::Error => e
        @log.call("idem: could not look up a COMMIT: #{e.message}")
      end
    end
    later('commit_unknown', 'The connection was lost in COMMIT. Repeat the request with the same key.')
  end

  # The claim is committed before the work, and renewed while it runs. A caller that waits holds no connection.
  def leased(call, env)
    until_ = clock + @wait
    sent = answer = nil
    loop do
      answer = @transaction.call do |db|
        sent = clock # the term begins where the claim is sent
        start(db, call, @lease, 0)
      end
      break unless answer && answer[:code] == 'in_flight' && clock < until_

      sleep [0.02 + rand * 0.2, until_ - clock].min
    end
    return answer[:response] if answer

    exchange = Exchange.new(nil, call.scope, call.key, call.fence, [])
    return buffered(@app.call(env.merge('idem' => exchange)), call) if call.fence.nil?
    return lease_lost if clock - sent >= @lease / 3.0 && !renew(call)

    heart = Thread.new { loop { sleep @lease / 3.0; renew(call) } }
    begin
      response = buffered(@app.call(env.merge('idem' => exchange)), call)
    rescue Exception # rubocop:disable Lint/RescueException
      heart.kill
      release(call)
      raise
    end
    heart.kill
    store(call, response, exchange.acts)
  end

  def store(call, response, acts)
    [0, *REPEAT].each do |pause|
      sleep pause
      stage = nil
      @transaction.call do |db|
        stage = :act
        acts.each { |act| act.call(db) }
        stage = :complete
        return_rolled_back({ response: nil }) if complete(db, call, response) == 'released'
        stage = :commit
      end
      return response
    rescue Answered
      release(call)
      return response
    rescue PG::Error => e
      return lease_lost if state_of(e) == 'ID001'
      # What a COMMIT whose answer was lost may have done must not be done again: the fence tells.
      return response if stage == :commit && !renew(call)
      raise if state_of(e)
    end
    later('unavailable', 'The response could not be stored. Repeat the request with the same key.')
  end

  def renew(call)
    @transaction.call { |db| db.exec_params(@renew, [call.key, call.fence, @lease, call.scope]) }
    true
  rescue PG::Error => e
    state_of(e) != 'ID001' # the fence decides in the database whether a lease that ran out was taken over
  end

  def release(call)
    @transaction.call { |db| db.exec_params(@release, [call.key, call.fence, call.scope]) }
  rescue PG::Error => e
    @log.call("idem: a key could not be released; its lease will end: #{e.message}")
  end

  # nil: run.
  def start(db, call, lease, wait)
    row = db.exec_params(@begin, [call.scope, call.method, call.route, call.field, bytes(call.body), call.type, lease, lease ? nil : wait]).first
    headers = JSON.parse(row['headers'] || '{}').transform_values { |value| Array(value).join("\n") }
    if row['action'] == 'run'
      call.key = row['key'] unless row['code'] == 'unkeyed'
      call.fence, call.added = row['fence'], headers
      return nil
    end
    body = row['body_bytes'] ? PG::Connection.unescape_bytea(row['body_bytes']) : ''
    headers.delete_if { |name, _| name.match?(/\AContent-(Type|Encoding)\z/i) } unless row['body_bytes']
    { response: [row['status'].to_i, headers, [body]], code: row['code'], doubt: row['code'] == 'in_doubt' }
  end

  def complete(db, call, response)
    status, headers, body = response
    encoding = headers.find { |name, _| name.casecmp?('content-encoding') }&.last
    if encoding && encoding != 'identity'
      return_rolled_back({ response: problem(500, 'response_encoded', 'compression belongs outside of the middleware.') })
    end
    fields = headers.transform_values { |value| value.to_s.split("\n") }
    db.exec_params(@complete, [call.scope, call.key && call.field, status, JSON.dump(fields), bytes(body.join), call.fence]).getvalue(0, 0)
  end

  # The body is made before COMMIT.
  def buffered(response, call)
    status, headers, body = response
    parts = []
    body.each { |part| parts << part.b }
    body.close if body.respond_to?(:close)
    [status.to_i, (call.added || {}).merge(headers), parts]
  end

  def bytes(text)
    text.empty? ? nil : { value: text, format: 1, type: 17 } # a String would be read as a literal of bytea
  end

  def failed(error)
    @log.call("idem: #{error.class}: #{error.message}")
    state = state_of(error)
    return later('serialization_failure', 'The transaction met another one and was rolled back.') if %w[40001 40P01].include?(state)
    return later('unavailable', 'The database could not be reached. Nothing was done.') if state.nil? || state == '25006' || state.match?(/\A(08|53|57P)/)

    problem(500, 'internal', 'The request was not processed. The log of the server has the reason.')
  end

  def state_of(error)
    state = error.respond_to?(:result) && error.result&.error_field(PG::Result::PG_DIAG_SQLSTATE)
    state unless state && state.start_with?('08', '57P') # the connection is lost
  end

  def clock = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  def lease_lost = later('lease_lost', 'The lease ran out, and another request may have taken over.')

  def later(code, detail)
    status, headers, body = problem(503, code, detail)
    [status, headers.merge('Retry-After' => '1'), body]
  end

  def problem(status, code, detail)
    [status, { 'Content-Type' => 'application/problem+json' }, [JSON.dump(type: 'about:blank', status: status, code: code, detail: detail)]]
  end
end
