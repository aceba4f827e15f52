/* Lists of batch sizes on the command line: "32,64,128". */
#ifndef DL_PROFILER_BATCH_LIST_H
#define DL_PROFILER_BATCH_LIST_H

#include "common/status.h"

#define DL_BATCH_LIST_MAX 16
#define DL_BATCH_MAX (1 << 20)

/* Reads the numbers into batches[DL_BATCH_LIST_MAX]; *count of them. DL_ERR_USAGE for an empty
 * item, anything that is no whole number in 1..DL_BATCH_MAX, a number that comes twice, too many.
 */
dl_status dl_batch_list_parse(const char *text, int *batches, int *count,
                              dl_error *err) DL_MUST_CHECK;

#endif
