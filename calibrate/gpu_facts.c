#include "calibrate/gpu_facts.h"

#include <math.h>
#include <string.h>

#include "trace/meta.h"

bool dl_gpu_facts_is_of_gpu(const dl_trace *trace)
{
    return dl_trace_meta(trace, "device_count") != NULL;
}

/* A number of the meta keys; *known = false where it is missing. */
static dl_status meta_bytes(const dl_trace *trace, const char *key, bool *known, double *bytes,
                            dl_error *err)
{
    int64_t number = -1;
    const dl_status status = dl_trace_meta_read_int(trace, key, -1, &number, err);
    *known = number >= 0;
    if (*known) *bytes = (double)number;
    return status;
}

/* Bytes of a sample that the second INPUT record of a step copied; 0: there is none. */
static double copied_bytes_per_sample(const dl_trace *trace)
{
    int64_t step = -1;
    for (size_t i = 0; i < trace->record_count; i++) {
        const dl_record *record = &trace->records[i];
        if (record->kind != DL_RECORD_INPUT) continue;
        if (step == (int64_t)record->step && record->samples > 0) {
            return (double)record->bytes / record->samples;
        }
        step = (int64_t)record->step;
    }
    return 0;
}

/* Samples of a step; 0: the trace does not say. */
static double batch_of(const dl_trace *trace)
{
    for (size_t i = 0; i < trace->record_count; i++) {
        if (trace->records[i].kind == DL_RECORD_STEP) return trace->records[i].samples;
    }
    return 0;
}

static dl_status take_memory(dl_gpu_facts *facts, const dl_trace *trace, dl_notes *notes,
                             dl_error *err)
{
    static const char *const own_keys[] = {"parameter_bytes", "gradient_bytes", "state_bytes"};
    double used = 0, activations = 0, own = 0;
    bool knows_used, knows_activations, knows_all = true;
    dl_status status = meta_bytes(trace, "device_memory_bytes", &knows_used, &used, err);
    if (status != DL_OK) return status;
    status = meta_bytes(trace, "activation_bytes", &knows_activations, &activations, err);
    for (size_t i = 0; status == DL_OK && i < 3; i++) {
        bool known;
        double bytes = 0;
        status = meta_bytes(trace, own_keys[i], &known, &bytes, err);
        own += bytes;
        knows_all &= known;
    }
    if (status != DL_OK || !knows_activations) return status;
    facts->knows_activations = true;
    facts->activation_bytes_per_sample = activations;
    if (!knows_used || !knows_all) return DL_OK;
    const double rest = used - own - activations * batch_of(trace);
    if (rest < 0) {
        dl_notes_add(notes,
                     "%s: the GPU's memory in use is less than the model takes: no workspace_bytes",
                     trace->path);
        return DL_OK;
    }
    if (!facts->knows_workspace || rest > facts->workspace_bytes) facts->workspace_bytes = rest;
    facts->knows_workspace = true;
    facts->runs++;
    return DL_OK;
}

dl_status dl_gpu_facts_take(dl_gpu_facts *facts, const dl_trace *trace, dl_notes *notes,
                            dl_error *err)
{
    if (!dl_gpu_facts_is_of_gpu(trace)) return DL_OK;
    facts->gpu = true;
    const double copied = copied_bytes_per_sample(trace);
    if (copied > 0) {
        facts->knows_input = true;
        facts->input_bytes_per_sample = copied;
    }
    return take_memory(facts, trace, notes, err);
}

void dl_gpu_facts_fill(const dl_gpu_facts *facts, dl_costs *costs)
{
    if (facts->knows_activations) {
        costs->gpu_memory.activation_bytes_per_sample =
            (dl_value){true, facts->activation_bytes_per_sample, 0, 1, DL_ORIGIN_MEASURED};
    }
    if (facts->knows_workspace) {
        costs->gpu_memory.workspace_bytes =
            (dl_value){true, facts->workspace_bytes, 0, facts->runs, DL_ORIGIN_MEASURED};
    }
    if (facts->knows_input) {
        costs->input_bytes_per_sample =
            (dl_value){true, facts->input_bytes_per_sample, 0, 1, DL_ORIGIN_MEASURED};
    }
}
