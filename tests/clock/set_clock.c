/*
 * A clock for a server under test, which the test moves while the server runs.
 *
 * Loaded into the server by LD_PRELOAD, these functions answer the system's wall clock moved by as
 * many microseconds as stand in the file that RL_CLOCK_MOVED_US names: eight bytes, mapped once, so
 * that a step is seen by the next reading. Monotonic clocks are left alone, as by a real step.
 *
 * libfaketime would do the same where it can be loaded. It cannot into servers that are linked with
 * a shared jemalloc, Debian's among them: it allocates when it is first asked the time, and that is
 * by the allocator, which waits for itself for ever. So nothing here allocates.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static _Atomic(const _Atomic int64_t *) moved;

static int64_t moved_us(void)
{
    const _Atomic int64_t *mapped = moved;
    if (!mapped) {
        const char *path = getenv("RL_CLOCK_MOVED_US");
        int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
        if (file < 0)
            return 0;
        void *page = mmap(NULL, sizeof *mapped, PROT_READ, MAP_SHARED, file, 0);
        close(file);
        if (page == MAP_FAILED)
            return 0;
        moved = mapped = page;
    }
    return *mapped;
}

static int64_t now_us(void)
{
    struct timespec now;
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &now);
    return now.tv_sec * INT64_C(1000000) + now.tv_nsec / 1000 + moved_us();
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)
        return (int)syscall(SYS_clock_gettime, clock, now);
    int64_t us = now_us();
    now->tv_sec = us / 1000000;
    now->tv_nsec = us % 1000000 * 1000;
    return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    int64_t us = now_us();
    (void)zone;
    now->tv_sec = us / 1000000;
    now->tv_usec = us % 1000000;
    return 0;
}

time_t time(time_t *at)
{
    time_t now = now_us() / 1000000;
    if (at)
        *at = now;
    return now;
}
