/* The processor of this machine: allowed cores, pinning, name. */
#ifndef DL_COMMON_CPU_H
#define DL_COMMON_CPU_H

#include <stddef.h>

#include "common/status.h"

/* Number of cores that this process may run on (its affinity mask), at least 1. */
int dl_cpu_count(void);

/* Pins the calling thread to allowed core number `index` modulo dl_cpu_count(). The allowed cores
 * are those of the process at the first call of dl_cpu_count. */
dl_status dl_cpu_pin(int index, dl_error *err) DL_MUST_CHECK;

/* Model name ("AMD EPYC 7R13"), written to text[bytes]; "unknown CPU" if the system gives none.
 * Returns text. */
const char *dl_cpu_name(char *text, size_t bytes);

/* Treats subnormal numbers as zero, as operands and as results, in the calling thread and those
 * that it starts. As training converges, gradients become subnormal, and many processors are a
 * hundred times slower on these, so that steps would become slower. Only floats below 1.2e-38
 * change. Does nothing on processors other than x86-64 and AArch64. */
void dl_cpu_flush_subnormals(void);

/* Processor time used since the machine started, in seconds over all processors. */
typedef struct dl_cpu_usage {
    double own_s;   /* this process, all threads */
    double busy_s;  /* all programs, and the kernel */
    double steal_s; /* taken by the host of a virtual machine */
    double total_s; /* idle time included */
} dl_cpu_usage;

/* The usage now. All zero if /proc/stat cannot be read; it counts in ticks of 10 ms. */
dl_cpu_usage dl_cpu_usage_now(void);

/* Shares of the machine's processor time between two moments: used by other programs, and taken by
 * the host, 0 .. 1; NaN if less than a tick passed. */
typedef struct dl_cpu_disturbance {
    double others_frac, steal_frac;
} dl_cpu_disturbance;

dl_cpu_disturbance dl_cpu_disturbed(const dl_cpu_usage *from, const dl_cpu_usage *to);

/* Tells the core that this is a spin loop. */
static inline void dl_cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

#endif
