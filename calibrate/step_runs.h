/* The train traces of a data set as runs: the times of their steps' operations. */
#ifndef DL_CALIBRATE_STEP_RUNS_H
#define DL_CALIBRATE_STEP_RUNS_H

#include "calibrate/dataset.h"
#include "trace/dlt.h"

/* Adds the steps of a train trace behind its warm-up as a run; the first one says which operations
 * the data set has. Takes the facts of its GPU too. Steps of another batch size than the first, or
 * that lack an operation, are left out with a note.
 *
 * DL_ERR_DATA: more than one worker, no step, no count of samples, an operation that the data set
 * has not, or more steps left out than taken; DL_ERR_PARSE: meta keys that are no numbers. On
 * failure the data set is only good for dl_dataset_free. */
dl_status dl_step_run_add(dl_dataset *dataset, const dl_trace *trace, dl_notes *notes,
                          dl_error *err) DL_MUST_CHECK;

#endif
