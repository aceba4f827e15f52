/* WebAssembly by Emscripten: one thread on an unnumbered core; no other programs, no file of the
 * running program, and fixed standard streams. */
#include "common/system.h"

#include <errno.h>
#include <stddef.h>

#include "common/status.h"

const clockid_t dl_system_thread_clock = CLOCK_MONOTONIC;

int dl_system_cores(int **cores)
{
    *cores = NULL;
    return 0;
}

int dl_system_pin(int core DL_UNUSED)
{
    return ENOSYS;
}

char *dl_system_program(void)
{
    errno = ENOSYS;
    return NULL;
}

char *dl_system_library(const void *here DL_UNUSED)
{
    errno = ENOSYS;
    return NULL;
}

int dl_system_exchange(const char *first DL_UNUSED, const char *second DL_UNUSED)
{
    return ENOSYS;
}

int dl_system_set_streams(FILE *out DL_UNUSED, FILE *err DL_UNUSED)
{
    return ENOSYS;
}
