/*
 * A module whose one command, `caller.call command [argument ...]`, calls another command by the
 * server's API for modules, as any module may, and answers what that is answered.
 *
 * The few functions of the API that it needs are declared here, so that no header has to be found.
 */
#include <stddef.h>

typedef struct Context Context;
typedef struct String String;
typedef struct Reply Reply;
typedef int (*Handler)(Context *, String **, int);

static int (*get_api)(const char *, void *);
static int (*create_command)(Context *, const char *, Handler, const char *, int, int, int);
static void (*set_attributes)(Context *, const char *, int, int);
static Reply *(*call)(Context *, const char *, const char *, ...);
static int (*reply_with_call_reply)(Context *, Reply *);
static int (*reply_with_error)(Context *, const char *);
static const char *(*string_bytes)(const String *, size_t *);
static void (*free_reply)(Reply *);

static int forward(Context *ctx, String **argv, int argc)
{
    if (argc < 2)
        return reply_with_error(ctx, "ERR nothing to call");
    /* "E": what cannot be called is answered with an error; "v": an array of strings. */
    Reply *reply = call(ctx, string_bytes(argv[1], NULL), "Ev", argv + 2, (size_t)(argc - 2));
    if (!reply)
        return reply_with_error(ctx, "ERR the call was refused");
    reply_with_call_reply(ctx, reply);
    free_reply(reply);
    return 0;
}

int RedisModule_OnLoad(Context *ctx, String **argv, int argc)
{
    (void)argv, (void)argc;
    /* The server hands the function that finds all others over at the context's beginning. */
    get_api = *(int (**)(const char *, void *))ctx;
    if (get_api("RedisModule_SetModuleAttribs", &set_attributes)
        || get_api("RedisModule_CreateCommand", &create_command)
        || get_api("RedisModule_Call", &call)
        || get_api("RedisModule_ReplyWithCallReply", &reply_with_call_reply)
        || get_api("RedisModule_ReplyWithError", &reply_with_error)
        || get_api("RedisModule_StringPtrLen", &string_bytes)
        || get_api("RedisModule_FreeCallReply", &free_reply))
        return 1;
    set_attributes(ctx, "caller", 1, 1);
    return create_command(ctx, "caller.call", forward, "write", 0, 0, 0);
}
