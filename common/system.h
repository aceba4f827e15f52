/* Calls of the operating system: a source for each system, of which CMake takes one. */
#ifndef DL_COMMON_SYSTEM_H
#define DL_COMMON_SYSTEM_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>
#include <time.h>

/* The cores that this process may run on, by the system's numbers, ascending: *cores, for free(); their
 * number, 0 where the system does not say. */
int dl_system_cores(int **cores);

/* Pins the calling thread to one core. 0, or the reason as a value of errno, as all below. */
int dl_system_pin(int core);

/* The clock of the calling thread's processor time; of the time that passes, where there is none. */
extern const clockid_t dl_system_thread_clock;

/* Absolute path of the running program's file, and of the shared library in which the object `here`
 * lies: NULL with errno if it cannot be found, and of the library in a program. free() it. */
char *dl_system_program(void);
char *dl_system_library(const void *here);

/* Exchanges the names of two files, at once. */
int dl_system_exchange(const char *first, const char *second);

/* Puts two streams in the place of stdout and stderr. */
int dl_system_set_streams(FILE *out, FILE *err);

#endif
