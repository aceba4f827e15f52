/* WebAssembly by Emscripten: one thread on an unnumbered core; no other programs, no file of the
 * running program, and fixed standard streams. */
#include "common/system.h"

#include <errno.h>
#include <stddef.h>

const clockid_t dl_system_thread_clock = CLOCK_MONOTONIC;

int dl_system_cores(int **cores)
{
    *cores = NULL;
    return 0;
}

int dl_system_pin(int core)
{
    (void)core;
    return ENOSYS;
}

char *dl_system_program(void)
{
    errno = ENOSYS;
    return NULL;
}

char *dl_system_library(const void *here)
{
    (void)here;
    errno = ENOSYS;
    return NULL;
}

int dl_system_exchange(const char *first, const char *second)
{
    (void)first;
    (void)second;
    return ENOSYS;
}

int dl_system_set_streams(FILE *out, FILE *err)
{
    (void)out;
    (void)err;
    return ENOSYS;
}
