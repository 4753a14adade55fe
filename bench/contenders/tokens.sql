--- fill.lua
-- Tokens to redeem: token-1, token-2 and so on, as many as ARGV[1] says.
for row = 1, ARGV[1] do
    redis.call('SET', 'token-' .. row, 'session_4711', 'EX', 1800)
end

--- idem_claim.sql
-- Gets its key as the redeemer gets its token.
SELECT idem_claim((SELECT key FROM prepared_tokens WHERE id = :id));

--- idem_token_issue.sql
SELECT idem_token_issue('session 4711');

--- idem_token_redeem.sql
SELECT idem_token_redeem((SELECT token FROM prepared_tokens WHERE id = :id), 'session 4711');

--- redeem.lua
-- Takes the token, if it is this subject's.
if redis.call('GET', KEYS[1]) == ARGV[1] then
    return redis.call('DEL', KEYS[1])
end
return 0

--- redis_issue.txt
# Where idem_token_issue writes nothing, every token that a page was given waits here until it expires.
SET token-{nonce} session_4711 EX 1800 -> OK

--- redis_redeem.txt
# Not given back when the business transaction fails.
EVALSHA redeem.lua 1 token-{row} session_4711 -> 1
