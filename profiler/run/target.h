/* The program that is profiled: its environment, its start, the signals it gets, its end. */
#ifndef DL_PROFILER_TARGET_H
#define DL_PROFILER_TARGET_H

#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

/* Variables as a process gets them. Start with dl_environment_copy; released with _free. */
typedef struct dl_environment {
    char **items; /* [count + 1] "NAME=value", then a NULL */
    size_t count;
} dl_environment;

/* A copy of `from` (as environ: ended by a NULL). */
dl_environment dl_environment_copy(char *const *from);

/* The value of the variable, "" too, or NULL if there is none. Borrowed until the next change. */
const char *dl_environment_get(const dl_environment *environment, const char *name);

/* Sets a variable, new or not. */
void dl_environment_set(dl_environment *environment, const char *name, const char *value);

/* Removes a variable if there is one. */
void dl_environment_unset(dl_environment *environment, const char *name);

void dl_environment_free(dl_environment *environment);

/* How a target ended. */
typedef struct dl_target_end {
    int exit_code;      /* as a shell has it: 128 + signal where a signal killed the target */
    int signal;         /* that killed it, or 0 */
    int64_t elapsed_ns; /* from its start to its end */
} dl_target_end;

/* Runs argv[0] (looked up in PATH) with the arguments argv (ended by a NULL) and the environment,
 * in this process's own group, directory and standard streams, and waits for its end.
 *
 * Meanwhile SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 sent to this process do nothing
 * here and are sent on to the target; those that the terminal or the kernel sent are not, since the
 * whole group got them. Afterwards these signals have the effect that they had before.
 *
 * Where the target cannot be started: DL_ERR_IO, and `end` holds the exit code that a shell would
 * give, 127 for a program that is not there and 126 for one that cannot be run. Else DL_OK, however
 * it ended. One at a time. */
dl_status dl_target_run(char *const *argv, const dl_environment *environment, dl_target_end *end,
                        dl_error *err) DL_MUST_CHECK;

#endif
