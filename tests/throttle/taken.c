/*
 * A module that has CL.THROTTLE already, as redis-cell has. The few lines of the module API that it
 * needs are declared here: a function is asked for by name, through the pointer that a context
 * begins with.
 */
#include <string.h>

typedef struct ctx ctx;
typedef int (*command)(ctx *, void **, int);

static int (*reply)(ctx *, long long);

static int throttle(ctx *c, void **argv, int argc)
{
    (void)argv;
    (void)argc;
    return reply(c, 42);
}

static int get(ctx *c, const char *name, void *function)
{
    int (*get_api)(const char *, void *);
    memcpy(&get_api, c, sizeof get_api);
    return get_api(name, function);
}

int RedisModule_OnLoad(ctx *c, void **argv, int argc)
{
    int (*set_attributes)(ctx *, const char *, int, int);
    int (*create)(ctx *, const char *, command, const char *, int, int, int);
    (void)argv;
    (void)argc;
    if (get(c, "RedisModule_SetModuleAttribs", &set_attributes) != 0
        || get(c, "RedisModule_CreateCommand", &create) != 0
        || get(c, "RedisModule_ReplyWithLongLong", &reply) != 0)
        return 1;
    set_attributes(c, "taken", 1, 1);
    return create(c, "cl.throttle", throttle, "write", 1, 1, 1);
}
