/* The traces of a command line for the sub-commands that replay them: reads files of all readers,
 * selects the processes that used a device, and puts them on a common clock. */
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
    bool cores; /* set before: processes that trained only on cores are taken too */
} dl_trace_inputs;

/* Adds the processes of a file. One without device work is skipped with a message of `program` to
 * stderr; with `cores`, one that used a device whose work was not recorded (dl_cpu_lost_device) is
 * DL_ERR_DATA. Also the errors of dl_read. */
dl_status dl_trace_inputs_read(dl_trace_inputs *in, const char *path, const dl_read_options *read,
                               const char *program, dl_error *err) DL_MUST_CHECK;
void dl_trace_inputs_free(dl_trace_inputs *in);

/* Puts all traces, two or more, on one clock (trace/activity/rank_clock.h): the clock furthest
 * behind, so that no time becomes negative. */
dl_status dl_trace_inputs_align(dl_trace_inputs *in, dl_error *err) DL_MUST_CHECK;

/* dl_command_main for a sub-command that reads traces of all readers: adds to its own options
 * --collective and --comm-patterns, by which the user names the kernels and ranges that are
 * collectives, --rank and --process, which choose one of a file's processes, and dl_step_options
 * into *hints (NULL: the command's own options have them). `run` finds these patterns in *read, and
 * kernels are classified by them. Unreadable patterns are errors of dl_comm_patterns_read, or
 * DL_ERR_USAGE; patterns are valid until `run` returns. */
int dl_trace_command_main(const dl_command *command, int argc, char **argv, dl_command_fn run,
                          void *user, dl_read_options *read, dl_step_hints *hints);

#endif
