-- A leaky bucket in Lua, as RL.LEAKY decides, on the server's clock.
--
--   EVALSHA sha 1 key capacity rate period-ms cost
--   {allowed, remaining, retry after in ms, delay in ms}
--
-- A hash holds the level and the time in us at which it was taken. A denied call writes nothing.

local capacity, cost = tonumber(ARGV[1]), tonumber(ARGV[4])
local per_us = tonumber(ARGV[2]) / (tonumber(ARGV[3]) * 1000)
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local held = redis.call('HMGET', KEYS[1], 'level', 'at')
local level = tonumber(held[1]) or 0
local at = tonumber(held[2]) or now
level = math.max(0, level - math.max(0, now - at) * per_us)

if level + cost > capacity then
  local retry = -1
  if cost <= capacity then
    retry = math.ceil((level + cost - capacity) / per_us / 1000)
  end
  return {0, math.floor(capacity - level), retry, 0}
end

local delay = math.ceil(level / per_us / 1000)
level = level + cost
redis.call('HMSET', KEYS[1], 'level', level, 'at', now)
redis.call('EXPIRE', KEYS[1], math.ceil(level / per_us / 1000000) + 1)
return {1, math.floor(capacity - level), 0, delay}
