/* What recording itself adds to the steps of train traces, and taking it off them.
 *
 * dlprof bench overhead measures it in pairs of runs with and without a trace: ns a record. A step
 * that was written with k records is k times that too long. It is taken off the step's dispatch,
 * which is where records are written; what dispatch has not is taken off the operations in
 * proportion to their time. */
#ifndef DL_CALIBRATE_RECORDING_COST_H
#define DL_CALIBRATE_RECORDING_COST_H

#include "calibrate/dataset.h"
#include "trace/dlt.h"

/* Takes the figures of a trace of kind overhead. DL_ERR_PARSE: not numbers; DL_ERR_DATA: they are
 * missing, of another device than the data set's, or it has some already. */
dl_status dl_recording_cost_take(dl_dataset *dataset, const dl_trace *trace,
                                 dl_error *err) DL_MUST_CHECK;

/* Takes the cost off all steps of all runs, once all traces are in; does nothing where it is not
 * known or its interval has 0 in it. A note says what was done. */
void dl_recording_cost_subtract(dl_dataset *dataset, dl_notes *notes);

#endif
