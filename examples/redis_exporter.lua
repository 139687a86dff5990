-- What redis_exporter collects of the module rl:
--
--     redis_exporter --script /path/redis_exporter.lua
--
-- Each pair that this script returns becomes a value of the metric redis_script_values, with the
-- name in the label key: every number of INFO rl under its name there, such as
-- rl_tokenbucket_denied, and rl_topdenied:NAME with the count of each of the most denied keys.
--
-- A name that is no printable ASCII is shown with \xHH for each other byte, and \\ for \.

-- So many keys are listed. Each is a time series: 0 leaves them out.
local TOP = 20

local pairs_out = {}

local function add(name, value)
    pairs_out[#pairs_out + 1] = name
    pairs_out[#pairs_out + 1] = tostring(value)
end

local function printable(name)
    name = string.gsub(name, '\\', '\\\\')
    return (string.gsub(name, '[^ -~]', function(byte)
        return string.format('\\x%02x', string.byte(byte))
    end))
end

for name, value in string.gmatch(redis.call('INFO', 'rl'), '(rl_[%w_]+):(%d+)') do
    add(name, value)
end

if TOP > 0 then
    local listed = {}
    -- Refused to a user without the right to it, who still gets the numbers.
    local denied = redis.pcall('RL.TOPDENIED', 'COUNT', tostring(TOP))
    for _, entry in ipairs(denied) do
        local name = printable(entry[1])
        -- Long keys may look alike: the one denied most stands for all of them.
        if not listed[name] then
            listed[name] = true
            add('rl_topdenied:' .. name, entry[2])
        end
    end
end

return pairs_out
