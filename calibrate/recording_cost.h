/* What recording itself adds to the steps of train traces, and taking it off them.
 *
 * dlprof bench overhead measures it in pairs of runs with and without a trace: ns a record. A step
 * that was written with k records is k times that too long. It is taken off the step's dispatch,
 * which is where records are written; what dispatch has not is taken off the operations in
 * proportion to their time.
 *
 * A training process that dlprof run recorded meanwhile was delayed at each launch. */
#ifndef DL_CALIBRATE_RECORDING_COST_H
#define DL_CALIBRATE_RECORDING_COST_H

#include "calibrate/dataset.h"
#include "trace/dlt.h"

/* Takes the figures of a trace of kind overhead. DL_ERR_PARSE: not numbers; DL_ERR_DATA: they are
 * missing, of another device than the data set's, or it has some already. */
dl_status dl_recording_cost_take(dl_dataset *dataset, const dl_trace *trace,
                                 dl_error *err) DL_MUST_CHECK;

/* "host:pid" of the process that made the trace, or NULL where it does not say. free() it. */
char *dl_recording_process(const dl_trace *trace);

/* Takes what a trace of kind run says about its process: the cost of recording a step, from the
 * figures that it carries (trace/capture_figures.h) and the launches of its steps. Without figures
 * or steps, why there is no cost. DL_ERR_DATA if it does not say of which process it is. */
dl_status dl_recording_cost_take_run(dl_dataset *dataset, const dl_trace *trace,
                                     dl_error *err) DL_MUST_CHECK;

/* Takes the costs off all steps of all runs, once all traces are in; does nothing where one is not
 * known or its interval has 0 in it. Notes say what was done, and which runs were recorded by
 * dlprof run at an unknown cost.
 *
 * Recording CUDA's calls delays the thread that launches: it comes off dispatch alone, and no more
 * than that is, since the device is at work meanwhile. */
void dl_recording_cost_subtract(dl_dataset *dataset, dl_notes *notes);

#endif
