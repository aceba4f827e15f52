/* The processor of this machine: allowed cores, pinning, model name, subnormal numbers, usage. */
#ifndef DL_COMMON_CPU_H
#define DL_COMMON_CPU_H

#include <stddef.h>

#include "common/status.h"

/* Returns the number of cores that this process may use (its affinity mask), at least 1. */
int dl_cpu_count(void);

/* Pins the calling thread to allowed core number `index` modulo dl_cpu_count(). The allowed cores
 * are those of the process at the first call of dl_cpu_count. Returns DL_ERR_SYSTEM if the system
 * refuses. */
dl_status dl_cpu_pin(int index, dl_error *err) DL_MUST_CHECK;

/* Writes the model name ("AMD EPYC 7R13") to text[bytes]; "unknown CPU" if the system gives none.
 * Returns text. */
const char *dl_cpu_name(char *text, size_t bytes);

/* Flushes subnormal operands and results to zero in the calling thread and threads that it starts.
 * As training converges, gradients become subnormal, and many processors are a hundred times slower
 * on these, which would slow down the steps. Only floats below 1.2e-38 change. Has no effect on
 * processors other than x86-64 and AArch64. */
void dl_cpu_flush_subnormals(void);

/* Processor time, in seconds; except for own_s, since the machine started and over all
 * processors. */
typedef struct dl_cpu_usage {
    double own_s;   /* this process since its start, all threads */
    double busy_s;  /* all programs, including this one, and the kernel */
    double steal_s; /* taken by the host of a virtual machine */
    double total_s; /* including idle time */
} dl_cpu_usage;

/* Returns the current usage; except for own_s, in ticks of usually 10 ms. If /proc/stat cannot be
 * opened, only own_s is not 0. */
dl_cpu_usage dl_cpu_usage_now(void);

/* Shares of the machine's processor time between two samples: used by other programs, and taken by
 * the host, 0 .. 1; NaN if no tick passed. */
typedef struct dl_cpu_disturbance {
    double others_frac, steal_frac;
} dl_cpu_disturbance;

dl_cpu_disturbance dl_cpu_disturbed(const dl_cpu_usage *from, const dl_cpu_usage *to);

/* Signals a spin loop to the core; on x86 only. */
static inline void dl_cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

#endif
