/* The workers that are slowed on purpose: "WORKER:FACTOR" texts of the command line. */
#ifndef DL_PROFILER_SLOW_LIST_H
#define DL_PROFILER_SLOW_LIST_H

#include "common/options.h"
#include "common/status.h"

/* Makes *factors [workers] of the list, 1 for workers that it does not name; NULL for an empty
 * list. Released with free(). DL_ERR_USAGE for a text that is not WORKER:FACTOR, a worker that does
 * not exist or comes twice, a factor below 1. */
dl_status dl_slow_list_parse(const dl_text_list *list, int workers, double **factors,
                             dl_error *err) DL_MUST_CHECK;

#endif
