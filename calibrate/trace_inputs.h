/* Traces of a command line for the sub-commands that replay them: reads files of all supported
 * formats, selects the processes that used a device, and aligns their clocks. */
#ifndef DL_CALIBRATE_TRACE_INPUTS_H
#define DL_CALIBRATE_TRACE_INPUTS_H

#include <stdbool.h>

#include "common/options.h"
#include "trace/activity/steps.h"
#include "trace/readers/reader.h"

/* Owns its files and arrays; release with dl_trace_inputs_free. A zeroed object is empty. */
typedef struct dl_trace_inputs {
    dl_read_traces *files; /* [file_count] */
    size_t file_count;
    dl_trace **traces; /* [count] the processes' traces to use, borrowed from the files */
    size_t count;
    dl_notes notes; /* "FILE: sentence" for each missing or inferred datum of these processes */
    bool cores;     /* set by the caller: also take processes that trained only on cores */
} dl_trace_inputs;

/* Adds the processes of a file that have device work or, with `cores`, trained only on cores. Skips
 * the others, with a message of `program` on stderr; with `cores`, returns DL_ERR_DATA for a
 * process that used a device whose work was not recorded (dl_cpu_lost_device). Also returns the
 * errors of dl_read. */
dl_status dl_trace_inputs_read(dl_trace_inputs *in, const char *path, const dl_read_options *read,
                               const char *program, dl_error *err) DL_MUST_CHECK;
void dl_trace_inputs_free(dl_trace_inputs *in);

/* Shifts all traces, two or more, to one clock (trace/activity/rank_clock.h): the clock furthest
 * behind, so that no time becomes negative. */
dl_status dl_trace_inputs_align(dl_trace_inputs *in, dl_error *err) DL_MUST_CHECK;

/* dl_command_main for a sub-command that reads traces of all formats. Adds options: --collective
 * gives rules by which kernels and ranges are collectives (trace/readers/reader.h); --rank and
 * --process, which select one of a file's processes, go into *read; and dl_step_options into *hints
 * (NULL: the command's own options have them). */
int dl_trace_command_main(const dl_command *command, int argc, char **argv, dl_command_fn run,
                          void *user, dl_read_options *read, dl_step_hints *hints);

#endif
