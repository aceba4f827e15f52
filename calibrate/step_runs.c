#include "calibrate/step_runs.h"

#include <stdlib.h>

#include "calibrate/recording_cost.h"
#include "common/alloc.h"
#include "common/names.h"
#include "trace/meta.h"
#include "trace/steps/steps.h"

/* Name of the operation that a record is time of, NULL if of none; the text is the caller's. */
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

static void add_op(dl_dataset *dataset, char *name)
{
    dataset->ops =
        dl_realloc(dataset->ops, dataset->op_count + 1, sizeof *dataset->ops, "operations");
    dataset->ops[dataset->op_count++] = name;
}

/* The operations of the first step of the first train trace, in their order. */
static void list_ops(dl_dataset *dataset, const dl_trace *trace, const dl_steps *steps,
                     const dl_step *step)
{
    for (size_t i = 0; i < step->record_count; i++) {
        char *name = op_name(trace, dl_steps_record(steps, trace, step, i));
        if (name != NULL && find_op(dataset, name) == dataset->op_count) {
            add_op(dataset, name);
        } else {
            free(name);
        }
    }
    add_op(dataset, dl_strdup("dispatch"));
}

/* Looks operations up by a record's (name, phase) only once: indices by name, phase of a trace. */
typedef struct op_table {
    size_t *index; /* [string_count x PHASES]; op_count = other, op_count + 1 = not looked up */
    size_t op_count;
} op_table;

#define PHASES (DL_PHASE_PULL + 1)

static void op_table_init(op_table *table, const dl_dataset *dataset, const dl_trace *trace)
{
    table->op_count = dataset->op_count;
    table->index = dl_calloc(trace->string_count * PHASES, sizeof *table->index, "operations");
    for (size_t i = 0; i < trace->string_count * PHASES; i++)
        table->index[i] = table->op_count + 1;
}

static size_t op_of(op_table *table, const dl_dataset *dataset, const dl_trace *trace,
                    const dl_record *record)
{
    const bool input = record->kind == DL_RECORD_INPUT;
    if (input || record->name >= trace->string_count || (unsigned)record->phase >= PHASES) {
        return find_op(dataset, input ? "input" : "");
    }
    size_t *index = &table->index[record->name * PHASES + (unsigned)record->phase];
    if (*index == table->op_count + 1) {
        char *name = op_name(trace, record);
        *index = find_op(dataset, name);
        free(name);
    }
    return *index;
}

/* Time of each operation of a step into op_ns[op_count]; *step_ns without exchange. False if an
 * operation is missing; *unknown is a record of one that the list does not have. */
static bool sum_ops(const dl_dataset *dataset, op_table *table, const dl_trace *trace,
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
            *step_ns -= (double)record->duration_ns; /* the copy to the GPU, see gpu_facts.h */
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
    char *name = op_name(trace, record);
    const dl_status status = dl_error_set_at(
        err, DL_ERR_DATA, trace->path, 0,
        "has the operation '%s', which the first step of %s does not have: not the same model",
        name, dataset->run_count > 0 ? dataset->runs[0].path : trace->path);
    free(name);
    return status;
}

/* Steps that count: behind the warm-up, of the run's batch size, with every operation. */
static dl_status take_steps(const dl_dataset *dataset, const dl_trace *trace, const dl_steps *steps,
                            dl_step_run *run, size_t *dropped, dl_error *err)
{
    op_table table;
    op_table_init(&table, dataset, trace);
    dl_status status = DL_OK;
    for (size_t i = 0; i < steps->count && status == DL_OK; i++) {
        const dl_step *step = &steps->steps[i];
        if (step->warmup) continue;
        const dl_record *unknown = NULL;
        double *op_ns = run->op_ns + run->steps * dataset->op_count;
        if (step->samples == run->batch && sum_ops(dataset, &table, trace, steps, step, op_ns,
                                                   &run->step_ns[run->steps], &unknown)) {
            run->records[run->steps++] = (double)step->record_count;
        } else if (unknown != NULL) {
            status = refuse_op(dataset, trace, unknown, err);
        } else {
            (*dropped)++;
        }
    }
    free(table.index);
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
                               first == NULL ? "has no step behind the warm-up"
                                             : "does not say how many samples a step has");
    }
    if (dataset->op_count == 0) list_ops(dataset, trace, steps, first);
    dataset->runs =
        dl_realloc(dataset->runs, dataset->run_count + 1, sizeof *dataset->runs, "runs");
    dl_step_run *run = &dataset->runs[dataset->run_count];
    *run = (dl_step_run){
        .path = dl_strdup(trace->path),
        .batch = first->samples,
        .step_ns = dl_calloc(steps->count, sizeof(double), "step times"),
        .op_ns = dl_calloc(steps->count * dataset->op_count, sizeof(double), "operation times"),
        .records = dl_calloc(steps->count, sizeof(double), "records of steps"),
        .process = dl_recording_process(trace),
        .disturbed = dl_dataset_disturbed(trace)};
    const char *captured = dl_trace_meta(trace, "captured");
    if (captured != NULL) run->captured = dl_strdup(captured);
    size_t dropped = 0;
    const dl_status status = take_steps(dataset, trace, steps, run, &dropped, err);
    dataset->run_count++;
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

dl_status dl_step_run_add(dl_dataset *dataset, const dl_trace *trace, dl_notes *notes,
                          dl_error *err)
{
    int64_t workers;
    dl_status status = dl_trace_meta_read_int(trace, "workers", 1, &workers, err);
    if (status != DL_OK) return status;
    if (workers < (int64_t)trace->worker_count) workers = trace->worker_count;
    status = dl_gpu_facts_take(&dataset->gpu, trace, notes, err);
    if (status != DL_OK) return status;
    if (workers > 1) {
        return dl_error_set_at(err, DL_ERR_DATA, trace->path, 0,
                               "is of %lld workers, whose times hold what they do to one another: "
                               "give traces of one worker (dlprof train --workers 1)",
                               (long long)workers);
    }
    dl_steps steps = {0};
    dl_steps_init(&steps, trace);
    status = add_steps(dataset, trace, &steps, notes, err);
    dl_steps_free(&steps);
    return status;
}
