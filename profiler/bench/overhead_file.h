/* What recording costs here, as `dlprof bench overhead -o` has left it. */
#ifndef DL_PROFILER_OVERHEAD_FILE_H
#define DL_PROFILER_OVERHEAD_FILE_H

#include "common/status.h"

/* Where the file is looked for if none is given: $XDG_DATA_HOME/dlprof/overhead.dlt, else
 * $HOME/.local/share/dlprof/overhead.dlt; NULL if neither variable is set. free() it. */
char *dl_overhead_file_default(void);

/* *text becomes the value of a recorded trace's meta key "capture_cost" under `preset`
 * (dl_capture_preset): the figures of the file, or "unknown (why)". free() it.
 *
 * A `given` file that is no trace of kind overhead with such a key is an error: DL_ERR_DATA, or
 * that of dl_trace_read. The file of the default place is taken only if it was measured on this
 * host; whatever is wrong with it makes the cost unknown. */
dl_status dl_overhead_file_cost(const char *given, int preset, char **text,
                                dl_error *err) DL_MUST_CHECK;

#endif
