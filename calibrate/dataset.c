#include "calibrate/dataset.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/names.h"
#include "common/sort.h"
#include "trace/training/summary.h"

/* dl_dataset_leave_out_disturbed omits traces during which other programs and the host of a virtual
 * machine used more than DL_DATASET_DISTURBED of the processors. This applies to each kind (train
 * runs of a batch size, whole benches, snapshots), unless fewer than a quarter of its traces would
 * remain: then other programs belong to the machine's usual state. A note reports both cases. */
#define DL_DATASET_DISTURBED 100 /* thousandths */

/* Returns the thousandths of the processors used by other programs and by the host of a virtual
 * machine; 0 if unknown. */
static int64_t disturbed_of(const dl_trace *trace)
{
    return dl_trace_meta_int(trace, "others_permille", 0, 1000, 0) +
           dl_trace_meta_int(trace, "steal_permille", 0, 1000, 0);
}

/* Bytes per sample copied by a step's second INPUT record; 0: none. */
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

/* Samples per step; 0: unknown. */
static double batch_of(const dl_trace *trace)
{
    for (size_t i = 0; i < trace->record_count; i++) {
        if (trace->records[i].kind == DL_RECORD_STEP) return trace->records[i].samples;
    }
    return 0;
}

/* Median time in ns of the copy to the GPU (second INPUT record) in steps after the first; 0:
 * none. */
static double median_copy_ns(const dl_trace *trace)
{
    DL_AUTOFREE double *times = NULL;
    size_t count = 0;
    int64_t step = -1;
    for (size_t i = 0; i < trace->record_count; i++) {
        const dl_record *record = &trace->records[i];
        if (record->kind != DL_RECORD_INPUT) continue;
        if (step == (int64_t)record->step && step > 0)
            DL_APPEND(times, count, "copies") = (double)record->duration_ns;
        step = (int64_t)record->step;
    }
    dl_sort(times, count, sizeof *times, dl_compare_doubles);
    return count > 0 ? times[count / 2] : 0;
}

/* Least squares with one point per trace; the result is never negative. Sums are divided once, so
 * that the mean of equal numbers is exact, and a line through equal times is constant. */
dl_value dl_gpu_facts_copy_ns(const dl_gpu_facts *facts)
{
    double n = 0, bytes = 0, ns = 0, both = 0, squares = 0;
    double least = (double)INFINITY, most = 0;
    for (size_t i = 0; i < facts->copy_count; i++) {
        const dl_gpu_copies *copies = &facts->copies[i];
        if (copies->ns <= 0) continue;
        n++;
        bytes += copies->bytes;
        ns += copies->ns;
        least = fmin(least, copies->bytes);
        most = fmax(most, copies->bytes);
    }
    if (least >= most) return (dl_value){0};
    bytes /= n;
    ns /= n;
    for (size_t i = 0; i < facts->copy_count; i++) {
        const dl_gpu_copies *copies = &facts->copies[i];
        if (copies->ns <= 0) continue;
        both += (copies->bytes - bytes) * (copies->ns - ns);
        squares += (copies->bytes - bytes) * (copies->bytes - bytes);
    }
    if (both < 0) return (dl_value){0};
    return (dl_value){.known = true,
                      .value = fmax(0, ns - both / squares * bytes),
                      .error = 0,
                      .count = (int64_t)n,
                      .origin = DL_ORIGIN_FITTED};
}

static dl_status take_memory(dl_gpu_facts *facts, const dl_trace *trace, dl_notes *notes,
                             dl_error *err)
{
    static const char *const own_keys[] = {"parameter_bytes", "gradient_bytes", "state_bytes"};
    int64_t used = -1, activations = -1, own = 0;
    dl_status status = dl_trace_meta_read_int(trace, "device_memory_bytes", -1, &used, err);
    if (status == DL_OK) {
        status = dl_trace_meta_read_int(trace, "activation_bytes", -1, &activations, err);
    }
    bool known = used >= 0;
    for (size_t i = 0; status == DL_OK && i < 3; i++) {
        int64_t bytes = -1;
        status = dl_trace_meta_read_int(trace, own_keys[i], -1, &bytes, err);
        known &= bytes >= 0;
        own += bytes;
    }
    if (status != DL_OK || activations < 0) return status;
    facts->activation_bytes_per_sample = (dl_value){.known = true,
                                                    .value = (double)activations,
                                                    .error = 0,
                                                    .count = 1,
                                                    .origin = DL_ORIGIN_MEASURED};
    if (!known) return DL_OK;
    const double rest = (double)(used - own) - (double)activations * batch_of(trace);
    if (rest < 0) {
        dl_notes_add(notes,
                     "%s: less GPU memory is in use than the model takes: no workspace_bytes",
                     trace->path);
        return DL_OK;
    }
    dl_value *workspace = &facts->workspace_bytes;
    *workspace = (dl_value){.known = true,
                            .value = fmax(rest, workspace->value),
                            .error = 0,
                            .count = workspace->count + 1,
                            .origin = DL_ORIGIN_MEASURED};
    return DL_OK;
}

/* Adds the data of a train trace of one worker on a GPU; ignores traces of a processor. Returns
 * DL_ERR_PARSE for a meta key that is not a number. */
static dl_status gpu_facts_take(dl_gpu_facts *facts, const dl_trace *trace, dl_notes *notes,
                                dl_error *err)
{
    if (dl_trace_meta(trace, "device_count") == NULL) return DL_OK;
    facts->gpu = true;
    const double copied = copied_bytes_per_sample(trace);
    if (copied > 0) {
        facts->input_bytes_per_sample = (dl_value){
            .known = true, .value = copied, .error = 0, .count = 1, .origin = DL_ORIGIN_MEASURED};
        DL_APPEND(facts->copies, facts->copy_count, "copies") =
            (dl_gpu_copies){copied * batch_of(trace), median_copy_ns(trace)};
    }
    return take_memory(facts, trace, notes, err);
}

/* Name of the operation that a record times, NULL if none; the caller frees it. */
static char *op_name(const dl_trace *trace, const dl_record *record)
{
    if (record->kind == DL_RECORD_INPUT) return dl_strdup("input");
    if (record->kind != DL_RECORD_COMPUTE) return NULL;
    const char *name = dl_trace_name(trace, record);
    if (record->phase == DL_PHASE_NONE) return dl_strdup(name);
    return dl_format("%s.%s", name, dl_phase_name(record->phase));
}

static size_t find_op(const dl_dataset *dataset, const char *name)
{
    const int found =
        dl_names_find(name, (const char *const *)dataset->ops, (int)dataset->op_count);
    return found >= 0 ? (size_t)found : dataset->op_count;
}

/* Lists the operations of the first step after the warm-up of the first train trace, in order, and
 * last "dispatch". */
static void list_ops(dl_dataset *dataset, const dl_trace *trace, const dl_steps *steps,
                     const dl_step *step)
{
    for (size_t i = 0; i < step->record_count; i++) {
        char *name = op_name(trace, dl_steps_record(steps, trace, step, i));
        if (name != NULL && find_op(dataset, name) == dataset->op_count) {
            DL_APPEND(dataset->ops, dataset->op_count, "operations") = name;
        } else {
            free(name);
        }
    }
    DL_APPEND(dataset->ops, dataset->op_count, "operations") = dl_strdup("dispatch");
}

#define PHASES (DL_PHASE_PULL + 1)

/* Returns the index of the record's operation, which is looked up once for each (name, phase):
 * table[string_count x PHASES] holds the indices; op_count: not an operation of the data set,
 * op_count + 1: not looked up yet. */
static size_t op_of(size_t *table, const dl_dataset *dataset, const dl_trace *trace,
                    const dl_record *record)
{
    const bool input = record->kind == DL_RECORD_INPUT;
    if (input || record->name >= trace->string_count || (unsigned)record->phase >= PHASES) {
        return find_op(dataset, input ? "input" : "");
    }
    size_t *index = &table[record->name * PHASES + (unsigned)record->phase];
    if (*index == dataset->op_count + 1) {
        DL_AUTOFREE char *name = op_name(trace, record);
        *index = find_op(dataset, name);
    }
    return *index;
}

/* Sums the time of each operation of a step into op_ns[op_count]; *step_ns excludes exchange.
 * Returns false if an operation is missing, or at the first record of an unlisted operation, to
 * which it sets *unknown. */
static bool sum_ops(const dl_dataset *dataset, size_t *table, const dl_trace *trace,
                    const dl_steps *steps, const dl_step *step, double *op_ns, double *step_ns,
                    const dl_record **unknown)
{
    const size_t dispatch = dataset->op_count - 1;
    size_t seen = 0, inputs = 0;
    for (size_t op = 0; op <= dispatch; op++)
        op_ns[op] = -1;
    *step_ns = (double)(step->part_ns[DL_PART_COMPUTE] + step->part_ns[DL_PART_INPUT] +
                        step->part_ns[DL_PART_DISPATCH]);
    for (size_t i = 0; i < step->record_count; i++) {
        const dl_record *record = dl_steps_record(steps, trace, step, i);
        if (record->kind != DL_RECORD_COMPUTE && record->kind != DL_RECORD_INPUT) continue;
        if (record->kind == DL_RECORD_INPUT && inputs++ > 0 && dataset->gpu.gpu) {
            *step_ns -= (double)record->duration_ns; /* copy to the GPU, see dl_gpu_facts */
            continue;
        }
        const size_t op = op_of(table, dataset, trace, record);
        if (op >= dispatch) {
            *unknown = record;
            return false;
        }
        seen += op_ns[op] < 0;
        op_ns[op] = (op_ns[op] < 0 ? 0 : op_ns[op]) + (double)record->duration_ns;
    }
    op_ns[dispatch] = (double)step->part_ns[DL_PART_DISPATCH];
    return seen == dispatch;
}

static dl_status refuse_op(const dl_dataset *dataset, const dl_trace *trace,
                           const dl_record *record, dl_error *err)
{
    DL_AUTOFREE char *name = op_name(trace, record);
    return dl_error_set_at(
        err, DL_ERR_DATA, trace->path, 0,
        "has the operation '%s', which the first step of %s does not have: not the same model",
        name, dataset->run_count > 0 ? dataset->runs[0].path : trace->path);
}

/* Takes the steps after the warm-up that have the run's batch size and every operation. */
static dl_status take_steps(const dl_dataset *dataset, const dl_trace *trace, const dl_steps *steps,
                            dl_step_run *run, size_t *dropped, dl_error *err)
{
    DL_AUTOFREE size_t *table =
        dl_calloc(trace->string_count * PHASES, sizeof *table, "operations");
    for (size_t i = 0; i < trace->string_count * PHASES; i++)
        table[i] = dataset->op_count + 1;
    dl_status status = DL_OK;
    for (size_t i = 0; i < steps->count && status == DL_OK; i++) {
        const dl_step *step = &steps->steps[i];
        if (step->warmup) continue;
        const dl_record *unknown = NULL;
        double *op_ns = run->op_ns + run->steps * dataset->op_count;
        if (step->samples == run->batch && sum_ops(dataset, table, trace, steps, step, op_ns,
                                                   &run->step_ns[run->steps], &unknown)) {
            run->records[run->steps++] = (double)step->record_count;
        } else if (unknown != NULL) {
            status = refuse_op(dataset, trace, unknown, err);
        } else {
            (*dropped)++;
        }
    }
    return status;
}

static const dl_step *first_step(const dl_steps *steps)
{
    for (size_t i = 0; i < steps->count; i++) {
        if (!steps->steps[i].warmup) return &steps->steps[i];
    }
    return NULL;
}

static dl_status add_steps(dl_dataset *dataset, const dl_trace *trace, const dl_steps *steps,
                           dl_notes *notes, dl_error *err)
{
    const dl_step *first = first_step(steps);
    if (first == NULL || first->samples == 0) {
        return dl_error_set_at(err, DL_ERR_DATA, trace->path, 0,
                               first == NULL ? "has no step after the warm-up"
                                             : "does not say how many samples a step has");
    }
    if (dataset->op_count == 0) list_ops(dataset, trace, steps, first);
    dl_step_run *run = &DL_APPEND(dataset->runs, dataset->run_count, "runs");
    *run = (dl_step_run){
        .path = dl_strdup(trace->path),
        .batch = first->samples,
        .step_ns = dl_calloc(steps->count, sizeof(double), "step times"),
        .op_ns = dl_calloc(steps->count * dataset->op_count, sizeof(double), "operation times"),
        .records = dl_calloc(steps->count, sizeof(double), "records of steps"),
        .process = dl_recording_process(trace),
        .disturbed = disturbed_of(trace)};
    const char *captured = dl_trace_meta(trace, "captured");
    if (captured != NULL) run->captured = dl_strdup(captured);
    size_t dropped = 0;
    const dl_status status = take_steps(dataset, trace, steps, run, &dropped, err);
    if (status != DL_OK) return status;
    if (run->steps <= dropped) {
        return dl_error_set_at(
            err, DL_ERR_DATA, trace->path, 0,
            "%zu of %zu steps lack an operation of %s or have another batch size", dropped,
            dropped + run->steps, dataset->runs[0].path);
    }
    if (dropped > 0) {
        dl_notes_add(notes, "%s: %zu steps left out: an operation missing or another batch size",
                     dl_base_name(trace->path), dropped);
    }
    return DL_OK;
}

static dl_status add_drawn(dl_dataset *dataset, const dl_trace *trace, const dl_steps *steps,
                           dl_error *err)
{
    const size_t before = dataset->drawn_count;
    for (size_t i = 0; i < steps->count; i++) {
        if (steps->steps[i].samples == 0) continue;
        DL_APPEND(dataset->drawn, dataset->drawn_count, "drawn steps") = steps->steps[i].samples;
    }
    if (dataset->drawn_count > before) return DL_OK;
    return dl_error_set_at(err, DL_ERR_DATA, trace->path, 0,
                           "does not say how many samples a step has");
}

dl_status dl_step_run_add(dl_dataset *dataset, const dl_trace *trace, dl_notes *notes,
                          dl_error *err)
{
    int64_t workers;
    dl_status status = dl_trace_meta_read_int(trace, "workers", 1, &workers, err);
    if (status != DL_OK) return status;
    if (workers < (int64_t)trace->worker_count) workers = trace->worker_count;
    status = gpu_facts_take(&dataset->gpu, trace, notes, err);
    if (status != DL_OK) return status;
    if (workers > 1) {
        return dl_error_set_at(err, DL_ERR_DATA, trace->path, 0,
                               "is of %lld workers, which slow each other down: "
                               "give traces of one worker (dlprof train --workers 1)",
                               (long long)workers);
    }
    DL_SCOPED(dl_steps) steps = {0};
    dl_steps_init(&steps, trace);
    return dl_trace_meta(trace, "work") != NULL ? add_drawn(dataset, trace, &steps, err)
                                                : add_steps(dataset, trace, &steps, notes, err);
}

#define QUANTISE(kind, name)                                                                \
    [DL_SAMPLE_QUANTISE + DL_COMPRESS_##kind - DL_COMPRESS_FP16] = "quantise_" name,        \
                                               [DL_SAMPLE_DEQUANTISE + DL_COMPRESS_##kind - \
                                                   DL_COMPRESS_FP16] = "dequantise_" name

const char *const dl_sample_kind_names[DL_SAMPLE_KINDS] = {
    "copy",
    "average",
    "update",
    "barrier",
    "wakeup",
    "lock",
    "slice",
    "step",
    "pass",
    "launch",
    "h2d_pageable",
    "d2h_pageable",
    QUANTISE(FP16, "fp16"),
    QUANTISE(1BIT, "1bit"),
    QUANTISE(TOPK, "topk"),
    QUANTISE(INT8, "int8"),
    QUANTISE(FP4, "fp4"),
    [DL_SAMPLE_LEARNED] = "learned",
    [DL_SAMPLE_SHARED_WRITE] = "shared_write",
    [DL_SAMPLE_SHARED_READ] = "shared_read",
};

/* Samples of dlprof bench that are not used in a fit: those of links and GPUs' memories (used
 * by dlcal links and dlprof machine --measure), and those that older traces have of the memory
 * bandwidth reached by averages and messages on cores. */
static const char *const other_samples[] = {"h2d",
                                            "d2h",
                                            "h2d_with_d2h",
                                            "p2p",
                                            "all_reduce",
                                            "triad",
                                            "average_ram",
                                            "average_passes",
                                            "average_far",
                                            "fp16_encode",
                                            "fp16_decode",
                                            "1bit_encode",
                                            "1bit_decode",
                                            "gpu_copy",
                                            "gpu_average",
                                            "gpu_fp16_encode",
                                            "gpu_fp16_decode",
                                            "gpu_1bit_encode",
                                            "gpu_1bit_decode"};
enum { OTHER_SAMPLES = sizeof other_samples / sizeof other_samples[0] };

static dl_status differ(const dl_dataset *dataset, const dl_trace *trace, const char *what,
                        const char *here, const char *there, dl_error *err)
{
    return dl_error_set_at(err, DL_ERR_DATA, trace->path, 0,
                           "%s is '%s', but '%s' in %s: they cannot be fitted together", what, here,
                           there, dataset->path);
}

/* Checks the properties that all train and bench traces must share; the first trace sets them. */
static dl_status check_head(dl_dataset *dataset, const dl_trace *trace, dl_error *err)
{
    const char *model = dl_trace_meta(trace, "model");
    const char *device = dl_trace_meta(trace, "device");
    if (model == NULL) {
        return dl_error_set_at(err, DL_ERR_DATA, trace->path, 0,
                               "does not say which model it is of");
    }
    const char *threads = dl_trace_meta(trace, "worker_threads");
    if (threads != NULL) {
        return dl_error_set_at(err, DL_ERR_DATA, trace->path, 0,
                               "was recorded with --threads %s: costs are those of workers with "
                               "one core each",
                               threads);
    }
    const char *precision = dl_trace_meta(trace, "precision");
    if (device == NULL) device = "unknown device";
    int64_t parameter_bytes, state_bytes;
    dl_status status = dl_trace_meta_read_int(trace, "parameter_bytes", -1, &parameter_bytes, err);
    if (status == DL_OK)
        status = dl_trace_meta_read_int(trace, "state_bytes", -1, &state_bytes, err);
    if (status != DL_OK) return status;
    if (dataset->path == NULL) {
        dataset->path = dl_strdup(trace->path);
        dataset->workload = dl_strdup(model);
        dataset->device = dl_strdup(device);
        if (precision != NULL) dataset->precision = dl_strdup(precision);
        dataset->parameter_bytes = parameter_bytes;
        dataset->state_bytes = state_bytes;
        return DL_OK;
    }
    if (strcmp(model, dataset->workload) != 0) {
        return differ(dataset, trace, "the model", model, dataset->workload, err);
    }
    if (strcmp(device, dataset->device) != 0) {
        return differ(dataset, trace, "the device", device, dataset->device, err);
    }
    if (precision != NULL && dataset->precision != NULL &&
        strcmp(precision, dataset->precision) != 0) {
        return differ(dataset, trace, "the precision", precision, dataset->precision, err);
    }
    if (parameter_bytes != dataset->parameter_bytes || state_bytes != dataset->state_bytes) {
        char here[64], there[64];
        snprintf(here, sizeof here, "%lld + %lld", (long long)parameter_bytes,
                 (long long)state_bytes);
        snprintf(there, sizeof there, "%lld + %lld", (long long)dataset->parameter_bytes,
                 (long long)dataset->state_bytes);
        return differ(dataset, trace, "the size of parameters + state", here, there, err);
    }
    return DL_OK;
}

static dl_status add_sample(dl_bench_trace *bench, const dl_trace *trace, const dl_record *record,
                            dl_error *err)
{
    const char *name = dl_trace_name(trace, record);
    const int kind = dl_names_find(name, dl_sample_kind_names, DL_SAMPLE_KINDS);
    if (kind < 0 && dl_names_find(name, other_samples, OTHER_SAMPLES) >= 0) return DL_OK;
    if (kind < 0) {
        char hint[160];
        dl_names_hint(hint, sizeof hint, name, dl_sample_kind_names, DL_SAMPLE_KINDS);
        return dl_error_set_at(err, DL_ERR_NAME, trace->path, 0, "unknown micro-benchmark '%s'%s",
                               name, hint);
    }
    if (kind == DL_SAMPLE_STEP &&
        (record->vectors == 0 || record->threads == 0 || record->samples == 0)) {
        return dl_error_set_at(err, DL_ERR_DATA, trace->path, 0,
                               "a sample 'step' lacks the number of copies, cores or samples");
    }
    bench->samples[bench->count] = *record;
    bench->samples[bench->count++].name = (uint32_t)kind;
    return DL_OK;
}

static dl_status add_bench(dl_dataset *dataset, const dl_trace *trace, dl_error *err)
{
    dl_bench_trace *bench = &DL_APPEND(dataset->benches, dataset->bench_count, "bench traces");
    *bench = (dl_bench_trace){
        .path = dl_strdup(trace->path),
        .gpu = dl_trace_meta(trace, "device_count") != NULL,
        .snapshot = dl_trace_meta(trace, "snapshot") != NULL,
        .disturbed = disturbed_of(trace),
        .samples = dl_calloc(trace->record_count, sizeof *bench->samples, "bench samples")};
    for (size_t i = 0; i < trace->record_count; i++) {
        if (trace->records[i].kind != DL_RECORD_BENCH) continue;
        const dl_status status = add_sample(bench, trace, &trace->records[i], err);
        if (status != DL_OK) return status;
    }
    if (bench->count == 0) {
        return dl_error_set_at(err, DL_ERR_DATA, trace->path, 0,
                               "has no samples for a cost of exchange");
    }
    return DL_OK;
}

/* Takes the machine's number of cores for training from bench traces, before one is added from a
 * train trace: a train trace of one worker may have been restricted to one core. */
static dl_status take_cores(dl_dataset *dataset, const dl_trace *trace, bool bench, dl_error *err)
{
    int64_t cores;
    const dl_status status = dl_trace_meta_read_int(trace, "cores", 0, &cores, err);
    if (status != DL_OK) return status;
    if (bench && dataset->bench_count > 0 && cores != dataset->cores) {
        return dl_error_set_at(
            err, DL_ERR_DATA, trace->path, 0,
            "is from %lld cores, but %s from %lld: they cannot be fitted together",
            (long long)cores, dataset->benches[0].path, (long long)dataset->cores);
    }
    if (bench || dataset->cores == 0) dataset->cores = cores;
    return DL_OK;
}

static dl_status add_trace(dl_dataset *dataset, const dl_trace *trace, dl_notes *notes,
                           dl_error *err)
{
    static const char *const kinds[] = {"train", "bench", "overhead", "run"};
    const char *kind = dl_trace_meta(trace, "kind");
    const int which = kind != NULL ? dl_names_find(kind, kinds, 4) : -1;
    if (which < 0) {
        return dl_error_set_at(err, DL_ERR_DATA, trace->path, 0,
                               "is of kind '%s', expected 'train', 'bench', 'overhead' or 'run'",
                               kind != NULL ? kind : "");
    }
    if (which == 2) return dl_recording_cost_take(dataset, trace, err);
    if (which == 3) return dl_recording_cost_take_run(dataset, trace, err);
    if (trace->record_count == 0) {
        return dl_error_set_at(err, DL_ERR_DATA, trace->path, 0, "holds no records");
    }
    dl_status status = check_head(dataset, trace, err);
    if (status == DL_OK) status = take_cores(dataset, trace, which == 1, err);
    if (status != DL_OK) return status;
    if (dl_trace_meta(trace, "failed") != NULL) {
        dl_notes_add(notes, "%s: the run failed (%s); used up to its end",
                     dl_base_name(trace->path), dl_trace_meta(trace, "failed"));
    }
    if (!trace->complete) {
        dl_notes_add(notes, "%s: incomplete (the run was cut off); used up to its end",
                     dl_base_name(trace->path));
    }
    return which == 0 ? dl_step_run_add(dataset, trace, notes, err)
                      : add_bench(dataset, trace, err);
}

dl_status dl_dataset_add(dl_dataset *dataset, const char *path, dl_notes *notes, dl_error *err)
{
    DL_SCOPED(dl_trace) trace = {0};
    dl_status status = dl_trace_read(&trace, path, err);
    if (status != DL_OK) return status;
    return add_trace(dataset, &trace, notes, err);
}

static void free_run(dl_step_run *run)
{
    free(run->path);
    free(run->step_ns);
    free(run->op_ns);
    free(run->records);
    free(run->process);
    free(run->captured);
}

static void free_bench(dl_bench_trace *bench)
{
    free(bench->path);
    free(bench->samples);
}

void dl_dataset_free(dl_dataset *dataset)
{
    for (size_t r = 0; r < dataset->run_count; r++)
        free_run(&dataset->runs[r]);
    for (size_t c = 0; c < dataset->capture_count; c++) {
        free(dataset->captures[c].process);
        free(dataset->captures[c].unknown);
    }
    free(dataset->captures);
    free(dataset->drawn);
    free(dataset->gpu.copies);
    for (size_t b = 0; b < dataset->bench_count; b++)
        free_bench(&dataset->benches[b]);
    for (size_t op = 0; op < dataset->op_count; op++)
        free(dataset->ops[op]);
    free(dataset->runs);
    free(dataset->benches);
    free(dataset->ops);
    free(dataset->workload);
    free(dataset->precision);
    free(dataset->device);
    free(dataset->path);
    *dataset = (dl_dataset){0};
}

/* Returns whether to leave out the disturbed traces of a kind; notes their number. */
static bool leaves_out(size_t disturbed, size_t count, const char *kind, dl_notes *notes)
{
    if (disturbed == 0) return false;
    const bool out = 4 * (count - disturbed) >= count;
    dl_notes_add(
        notes, "%zu of %zu %s ran while other programs took over %d %% of the processors: %s",
        disturbed, count, kind, DL_DATASET_DISTURBED / 10, out ? "left out" : "kept, as most did");
    return out;
}

static void leave_out_runs(dl_dataset *dataset, int64_t batch, dl_notes *notes)
{
    size_t disturbed = 0, count = 0, kept = 0;
    for (size_t r = 0; r < dataset->run_count; r++) {
        if (dataset->runs[r].batch != batch) continue;
        count++;
        disturbed += dataset->runs[r].disturbed > DL_DATASET_DISTURBED;
    }
    char kind[64];
    snprintf(kind, sizeof kind, "runs of batch %lld", (long long)batch);
    if (!leaves_out(disturbed, count, kind, notes)) return;
    for (size_t r = 0; r < dataset->run_count; r++) {
        dl_step_run *run = &dataset->runs[r];
        if (run->batch == batch && run->disturbed > DL_DATASET_DISTURBED) {
            free_run(run);
        } else {
            dataset->runs[kept++] = *run;
        }
    }
    dataset->run_count = kept;
}

static void leave_out_benches(dl_dataset *dataset, bool snapshots, dl_notes *notes)
{
    size_t disturbed = 0, count = 0, kept = 0;
    for (size_t b = 0; b < dataset->bench_count; b++) {
        if (dataset->benches[b].snapshot != snapshots) continue;
        count++;
        disturbed += dataset->benches[b].disturbed > DL_DATASET_DISTURBED;
    }
    if (!leaves_out(disturbed, count, snapshots ? "snapshots" : "benches", notes)) return;
    for (size_t b = 0; b < dataset->bench_count; b++) {
        dl_bench_trace *bench = &dataset->benches[b];
        if (bench->snapshot == snapshots && bench->disturbed > DL_DATASET_DISTURBED) {
            free_bench(bench);
        } else {
            dataset->benches[kept++] = *bench;
        }
    }
    dataset->bench_count = kept;
}

void dl_dataset_leave_out_disturbed(dl_dataset *dataset, dl_notes *notes)
{
    size_t count;
    DL_AUTOFREE int64_t *batches = dl_dataset_batches(dataset, &count);
    for (size_t i = 0; i < count; i++)
        leave_out_runs(dataset, batches[i], notes);
    leave_out_benches(dataset, false, notes);
    leave_out_benches(dataset, true, notes);
}

int64_t *dl_dataset_batches(const dl_dataset *dataset, size_t *count)
{
    int64_t *batches = dl_calloc(dataset->run_count, sizeof *batches, "batch sizes");
    for (size_t r = 0; r < dataset->run_count; r++)
        batches[r] = dataset->runs[r].batch;
    dl_sort(batches, dataset->run_count, sizeof *batches, dl_compare_int64s);
    *count = 0;
    for (size_t r = 0; r < dataset->run_count; r++) {
        if (*count == 0 || batches[*count - 1] != batches[r]) batches[(*count)++] = batches[r];
    }
    return batches;
}
