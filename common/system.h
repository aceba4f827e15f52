/* Operating system calls: a source for each system, of which CMake takes one. */
#ifndef DL_COMMON_SYSTEM_H
#define DL_COMMON_SYSTEM_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>
#include <time.h>

/* Sets *cores to the cores that this process may run on, by the system's numbers, ascending; free()
 * it. Returns their number, 0 if the system does not say. */
int dl_system_cores(int **cores);

/* Pins the calling thread to one core. Returns 0 or a value of errno, as all ints below. */
int dl_system_pin(int core);

/* The clock of the calling thread's CPU time, or of real time on systems without one. */
extern const clockid_t dl_system_thread_clock;

/* Absolute path of the running program's file, and of the shared library that holds the object
 * `here`: NULL with errno if it cannot be found; NULL if the program holds it. free() it. */
char *dl_system_program(void);
char *dl_system_library(const void *here);

/* Exchanges the names of two files, atomically. */
int dl_system_exchange(const char *first, const char *second);

/* Replaces stdout and stderr by two streams. */
int dl_system_set_streams(FILE *out, FILE *err);

#endif
