/* A sub-command that reads traces of all readers. To its own options come --collective and
 * --comm-patterns, by which the user says which kernels and ranges are collectives. */
#ifndef DL_CALIBRATE_TRACE_COMMAND_H
#define DL_CALIBRATE_TRACE_COMMAND_H

#include "common/options.h"
#include "trace/readers/reader.h"

typedef struct dl_trace_command {
    dl_command command; /* with its own options only */
    dl_command_fn run;  /* finds the user's patterns in `read`; kernels are told by them too */
    void *user;         /* of run */
    dl_read_options *read;
} dl_trace_command;

/* dl_command_main for such a sub-command. Patterns that cannot be read are errors of
 * dl_comm_patterns_read, or DL_ERR_USAGE; they end with `run`. */
int dl_trace_command_main(const dl_trace_command *command, int argc, char **argv);

#endif
