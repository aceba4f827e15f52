/* Operating system calls: CMake selects one source per system. */
#ifndef DL_COMMON_SYSTEM_H
#define DL_COMMON_SYSTEM_H

#include <stdio.h>
#include <sys/types.h>
#include <time.h>

/* Sets *cores to the cores that this process may use, as ascending system numbers; the caller frees
 * the array. Returns their number, 0 if it is unknown. */
int dl_system_cores(int **cores);

/* Pins the calling thread to one core. Returns 0 or an errno value, like all int functions
 * below. */
int dl_system_pin(int core);

/* Clock of the calling thread's CPU time, or of real time on systems without one. */
extern const clockid_t dl_system_thread_clock;

/* Return the absolute path of the running program's file, and of the shared library that contains
 * the object `here`. NULL with errno if it cannot be found; NULL if `here` belongs to the program.
 * The caller frees the path. */
char *dl_system_program(void);
char *dl_system_library(const void *here);

/* Exchanges the names of two files atomically. */
int dl_system_exchange(const char *first, const char *second);

/* Replaces stdout and stderr by two streams. */
int dl_system_set_streams(FILE *out, FILE *err);

#endif
