-- Tokens to redeem: token-1, token-2 and so on, as many as ARGV[1] says.
for row = 1, ARGV[1] do
    redis.call('SET', 'token-' .. row, 'session_4711', 'EX', 1800)
end
