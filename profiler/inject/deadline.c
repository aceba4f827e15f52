#include "profiler/inject/deadline.h"

int64_t dl_monotonic_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * DL_SECOND_NS + now.tv_nsec;
}

struct timespec dl_deadline(int64_t wait_ns)
{
    const int64_t until_ns = dl_monotonic_ns() + wait_ns;
    return (struct timespec){.tv_sec = until_ns / DL_SECOND_NS, .tv_nsec = until_ns % DL_SECOND_NS};
}

void dl_deadline_cond_init(pthread_cond_t *condition)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &monotonic);
    pthread_condattr_destroy(&monotonic);
}
