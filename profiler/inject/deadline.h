/* Waits that end: deadlines on the monotonic clock, which nobody sets while the program waits. */
#ifndef DL_PROFILER_INJECT_DEADLINE_H
#define DL_PROFILER_INJECT_DEADLINE_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

#define DL_SECOND_NS 1000000000LL

int64_t dl_monotonic_ns(void);

/* The moment `wait_ns` (at least 0) from now. */
struct timespec dl_deadline(int64_t wait_ns);

/* Initialises a condition whose pthread_cond_timedwait takes such deadlines. */
void dl_deadline_cond_init(pthread_cond_t *condition);

#endif
