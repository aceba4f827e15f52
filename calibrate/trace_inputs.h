/* The traces of a command line, for the sub-commands that replay them: files of all readers, the
 * processes in them that used a device, a common clock. */
#ifndef DL_CALIBRATE_TRACE_INPUTS_H
#define DL_CALIBRATE_TRACE_INPUTS_H

#include <stdbool.h>

#include "common/options.h"
#include "trace/activity/steps.h"
#include "trace/readers/reader.h"

/* Owns its files and arrays; release with dl_trace_inputs_free. A zeroed one is empty. */
typedef struct dl_trace_inputs {
    dl_read_traces *files; /* [file_count] */
    size_t file_count;
    dl_trace **traces; /* [count] those with work of a device, borrowed from the files */
    size_t count;
    bool cores; /* set before: processes that trained on cores alone are taken too */
} dl_trace_inputs;

/* Adds the processes of a file. One without work of a device is passed over with a message of
 * `program` to stderr; with `cores`, one that used a device whose work was not recorded
 * (dl_cpu_lost_device) is DL_ERR_DATA. The errors of dl_read. */
dl_status dl_trace_inputs_read(dl_trace_inputs *in, const char *path, const dl_read_options *read,
                               const char *program, dl_error *err) DL_MUST_CHECK;
void dl_trace_inputs_free(dl_trace_inputs *in);

/* Puts all traces, two or more, on one clock (trace/activity/rank_clock.h): that of the one that
 * is behind most, so that no time gets negative. */
dl_status dl_trace_inputs_align(dl_trace_inputs *in, dl_error *err) DL_MUST_CHECK;

/* dl_command_main for a sub-command that reads traces of all readers: to its own options come
 * --collective and --comm-patterns, by which the user says which kernels and ranges are
 * collectives, and --rank and --process, which choose one of a file's processes, and dl_step_options into *hints
 * (NULL: the command's own options have them). `run` finds these patterns in *read, and kernels are classified by them. Patterns that cannot be read are errors of
 * dl_comm_patterns_read, or DL_ERR_USAGE; they end with `run`. */
int dl_trace_command_main(const dl_command *command, int argc, char **argv, dl_command_fn run,
                          void *user, dl_read_options *read, dl_step_hints *hints);

#endif
