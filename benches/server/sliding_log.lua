-- A sliding window in Lua, as RL.SLIDING decides: the log of all hits in a sorted set, on the
-- server's clock.
--
--   EVALSHA sha 1 key limit window-ms cost
--   {allowed, remaining}
--
-- A hit is a member whose score is its time in us; the number behind the time makes members of one
-- us differ. A denied call adds nothing.

local limit, window, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local stamp = string.format('%.0f', now)

redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now - window * 1000))
local hits = redis.call('ZCARD', KEYS[1])
if hits + cost > limit then
  return {0, math.max(0, limit - hits)}
end

for hit = hits + 1, hits + cost do
  redis.call('ZADD', KEYS[1], stamp, stamp .. '-' .. hit)
end
redis.call('PEXPIRE', KEYS[1], window)
return {1, limit - hits - cost}
