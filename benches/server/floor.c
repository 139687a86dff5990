/* The least that a limiter's call can cost as a module's command: BENCH.FLOOR key opens the key for
 * writing and answers five integers. It looks at nothing and stores nothing.
 *
 * `make bench` builds it for itself. It asks for what it needs by name, as every module does
 * (the server hands RedisModule_GetApi over in the first word of its context), so it needs no
 * header of the server. */

#include <stddef.h>

typedef struct Context Context;
typedef struct String String;
typedef struct Key Key;
typedef int Command(Context *, String **, int);

enum { OK = 0, ERROR = 1, API_VERSION = 1, READ_AND_WRITE = 3 };

static Key *(*open_key)(Context *, String *, int);
static void (*close_key)(Key *);
static int (*reply_with_array)(Context *, long);
static int (*reply_with_integer)(Context *, long long);
static int (*wrong_arity)(Context *);

static int floor_command(Context *context, String **words, int count) {
    if (count < 2) return wrong_arity(context);
    Key *key = open_key(context, words[1], READ_AND_WRITE);
    reply_with_array(context, 5);
    reply_with_integer(context, 1);
    reply_with_integer(context, 1000);
    reply_with_integer(context, 999);
    reply_with_integer(context, 0);
    reply_with_integer(context, 100);
    close_key(key);
    return OK;
}

int RedisModule_OnLoad(Context *context) {
    int (*get_api)(const char *, void *) = *(int (**)(const char *, void *))context;
    void (*set_module_attributes)(Context *, const char *, int, int);
    int (*create_command)(Context *, const char *, Command *, const char *, int, int, int);
    const struct { const char *name; void *to; } wanted[] = {
        {"RedisModule_SetModuleAttribs", &set_module_attributes},
        {"RedisModule_CreateCommand", &create_command},
        {"RedisModule_OpenKey", &open_key},
        {"RedisModule_CloseKey", &close_key},
        {"RedisModule_ReplyWithArray", &reply_with_array},
        {"RedisModule_ReplyWithLongLong", &reply_with_integer},
        {"RedisModule_WrongArity", &wrong_arity},
    };
    for (size_t index = 0; index < sizeof wanted / sizeof *wanted; index++)
        if (get_api(wanted[index].name, wanted[index].to) != OK) return ERROR;
    set_module_attributes(context, "bench-floor", 1, API_VERSION);
    return create_command(context, "bench.floor", floor_command, "write fast", 1, 1, 1);
}
