/* What traces of training on a GPU say beside the times of operations: what it takes of the GPU's
 * memory, and what is copied to it of each sample.
 *
 *   activation_bytes_per_sample  of the model, as the trace's meta key activation_bytes has it
 *   workspace_bytes              what the GPU's driver counts as used (device_memory_bytes) beyond
 *                                parameters, gradients, optimizer state and activations: libraries'
 *                                scratch memory, contexts, and what other programs hold. The
 *                                largest of all traces, as it grows with the batch
 *   input_bytes_per_sample       of the copy behind the host's part of a step's input
 *
 * On a GPU a step has two INPUT records, the host's part and the copy. The copy goes over a link,
 * which dlsim charges by the machine, so it is no part of the operation "input" (dataset.c). */
#ifndef DL_CALIBRATE_GPU_FACTS_H
#define DL_CALIBRATE_GPU_FACTS_H

#include "calibrate/notes.h"
#include "sim/costs/costs.h"
#include "trace/dlt.h"

typedef struct dl_gpu_facts {
    bool gpu; /* some trace is of a GPU; without one nothing below is known */
    bool knows_activations, knows_workspace, knows_input;
    double activation_bytes_per_sample, workspace_bytes, input_bytes_per_sample;
    int64_t runs; /* that the workspace is of */
} dl_gpu_facts;

/* Whether the trace is of a run on a GPU. */
bool dl_gpu_facts_is_of_gpu(const dl_trace *trace);

/* Adds what a train trace of one worker says; of a processor's nothing. DL_ERR_PARSE for a meta key
 * that is no number. */
dl_status dl_gpu_facts_take(dl_gpu_facts *facts, const dl_trace *trace, dl_notes *notes,
                            dl_error *err) DL_MUST_CHECK;

/* Fills costs->gpu_memory and input_bytes_per_sample with what is known. */
void dl_gpu_facts_fill(const dl_gpu_facts *facts, dl_costs *costs);

#endif
