-- A token bucket in Lua, as RL.TOKENBUCKET decides: what such scripts commonly are, on the server's
-- clock.
--
--   EVALSHA sha 1 key capacity rate period-ms cost [sparing]
--   {allowed, remaining, retry after in ms}
--
-- A hash holds the tokens and the time in us at which they were counted. Every call writes both
-- and the time to live, as most scripts do; with `sparing` a denied call writes nothing.

local capacity, cost = tonumber(ARGV[1]), tonumber(ARGV[4])
local per_us = tonumber(ARGV[2]) / (tonumber(ARGV[3]) * 1000)
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local held = redis.call('HMGET', KEYS[1], 'tokens', 'at')
local tokens = tonumber(held[1]) or capacity
local at = tonumber(held[2]) or now
tokens = math.min(capacity, tokens + math.max(0, now - at) * per_us)

local allowed, retry = 0, 0
if tokens >= cost then
  allowed = 1
  tokens = tokens - cost
elseif cost > capacity then
  retry = -1
else
  retry = math.ceil((cost - tokens) / per_us / 1000)
end

if allowed == 1 or ARGV[5] ~= 'sparing' then
  redis.call('HMSET', KEYS[1], 'tokens', tokens, 'at', now)
  redis.call('EXPIRE', KEYS[1], math.ceil((capacity - tokens) / per_us / 1000000) + 1)
end
return {allowed, math.floor(tokens), retry}
