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

/* Model name ("AMD EPYC 7R13"), written to text[bytes]; "unknown CPU" if the system tells none.
 * Returns text. */
const char *dl_cpu_name(char *text, size_t bytes);

/* Tells the core that this is a spin loop. */
static inline void dl_cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

#endif
