#include "calibrate/commands.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calibrate/notes.h"
#include "calibrate/replay/step_costs.h"
#include "calibrate/trace_inputs.h"
#include "common/alloc.h"
#include "common/names.h"
#include "common/output.h"
#include "common/units.h"

#define PROGRAM "dlcal costs"
#define OPTION_COUNT 6

typedef struct settings {
    const char *output, *batches, *workload;
    const char *overlap_trace; /* NULL: the traces' own slowdown */
    int64_t state_bytes;       /* -1 = unknown */
    dl_step_hints hints;
    dl_read_options read;
} settings;

/* The batch sizes, one for all traces or one each. */
static dl_status parse_batches(const char *text, int64_t *batches, size_t count, dl_error *err)
{
    char *copy = dl_strdup(text), *rest = NULL;
    size_t known = 0;
    dl_status status = DL_OK;
    for (char *item = strtok_r(copy, ",", &rest); item != NULL && status == DL_OK;
         item = strtok_r(NULL, ",", &rest)) {
        dl_error inner = {0};
        int64_t batch = 0;
        status = dl_parse_int(item, 1, INT32_MAX, &batch, &inner);
        if (status != DL_OK) {
            dl_error_set(err, DL_ERR_USAGE, "--batch: %s", inner.text);
            status = DL_ERR_USAGE;
        } else if (known < count) {
            batches[known++] = batch;
        } else {
            status = dl_error_set(err, DL_ERR_USAGE, "--batch: more than the %zu traces", count);
        }
    }
    free(copy);
    if (status != DL_OK) return status;
    if (known != 1 && known != count) {
        return dl_error_set(err, DL_ERR_USAGE,
                            "--batch: want one number, or one for each of the "
                            "%zu traces",
                            count);
    }
    for (; known < count; known++)
        batches[known] = batches[0];
    return DL_OK;
}

static dl_status take_file(dl_step_costs *costs, const char *path, int64_t batch,
                           const settings *set, const dl_overlap_slowdown *slowdown,
                           dl_notes *notes, dl_error *err)
{
    dl_trace_inputs in = {0};
    dl_status status = dl_trace_inputs_read(&in, path, &set->read, PROGRAM, err);
    if (status == DL_OK && in.count != 1) {
        status = dl_error_set_at(err, DL_ERR_DATA, path, 0,
                                 "%zu processes with work of a device: costs are taken from the "
                                 "trace of one rank",
                                 in.count);
    }
    if (status == DL_OK) {
        status = dl_step_costs_take(costs, in.traces[0], batch, &set->hints, slowdown, notes, err);
    }
    dl_trace_inputs_free(&in);
    return status;
}

/* The slowdown of another trace, of the same sort of device. */
static dl_status find_slowdown(dl_overlap_slowdown *slowdown, const settings *set, dl_notes *notes,
                               dl_error *err)
{
    dl_step_costs other = {0};
    dl_notes ignored = {0};
    dl_status status = take_file(&other, set->overlap_trace, 1, set, NULL, &ignored, err);
    dl_notes_free(&ignored);
    if (status == DL_OK && !other.slowdown.known) {
        status = dl_error_set_at(err, DL_ERR_DATA, set->overlap_trace, 0,
                                 "too little work was seen both beside collectives and alone");
    }
    if (status == DL_OK) {
        *slowdown = other.slowdown;
        dl_notes_add(notes, "[overlap] slowdown is that of %s (%s)",
                     dl_base_name(set->overlap_trace),
                     other.device != NULL ? other.device : "device unknown");
    }
    dl_step_costs_free(&other);
    return status;
}

static void print_mean(const char *name, dl_step_mean mean, double of_ns)
{
    char error[24];
    printf("  %-10s %10s +- %-9s %5.1f %%\n", name, DL_NS_TEXT(mean.value),
           dl_format_ns(error, sizeof error, mean.error), 100 * mean.value / of_ns);
}

static void print(const char *path, const dl_step_costs *c)
{
    char device[24], host[24];
    printf("%s: %lld samples, %zu steps of %s (device alone %s, host alone %s)\n",
           dl_base_name(path), (long long)c->batch, c->steps, DL_NS_TEXT(c->step_ns),
           dl_format_ns(device, sizeof device, c->device_ns),
           isnan(c->host_ns) ? "unknown" : dl_format_ns(host, sizeof host, c->host_ns));
    print_mean("forward", c->forward_ns, c->step_ns);
    print_mean("backward", c->backward_ns, c->step_ns);
    print_mean("update", c->update_ns, c->step_ns);
    if (c->slowdown.known) {
        printf("  beside collectives %.3f +- %.3f times as long (%zu operations)\n",
               c->slowdown.factor, c->slowdown.error, c->slowdown.works);
    }
    double before = 0;
    for (size_t i = 0; i < c->gradient_count; i++) {
        char bytes[24];
        printf("  gradients: %10s ready after %5.1f %% of the backward pass\n",
               dl_format_bytes(bytes, sizeof bytes, c->gradients[i].bytes - before),
               100 * c->gradients[i].share);
        before = c->gradients[i].bytes;
    }
}

static dl_status write(dl_costs *costs, const dl_text_list *paths, const settings *set,
                       const dl_notes *notes, dl_error *err)
{
    dl_notes from = {0};
    char *line = dl_format("dlcal costs %s of", dl_version());
    for (size_t i = 0; i < paths->count; i++) {
        char *longer = dl_format("%s %s", line, dl_base_name(paths->items[i]));
        free(line);
        line = longer;
    }
    dl_notes_add(&from, "%s", line);
    free(line);
    if (set->workload != NULL) costs->workload = dl_strdup(set->workload);
    costs->state_bytes = set->state_bytes;
    const dl_status status = dl_cost_file_write(costs, set->output, &from, notes, err);
    dl_notes_free(&from);
    return status;
}

static dl_status check_output(const dl_text_list *paths, const settings *set, dl_error *err)
{
    const dl_file_role output = {"--output", set->output};
    const dl_file_role overlap = {"--overlap-trace", set->overlap_trace};
    const dl_status status =
        dl_outputs_check_paths(&output, 1, "a trace", paths->items, paths->count, err);
    return status == DL_OK ? dl_outputs_check(&output, 1, &overlap, 1, err) : status;
}

static dl_status take_all(const dl_text_list *paths, void *user, dl_error *err)
{
    const settings *set = user;
    if (set->batches == NULL) {
        return dl_error_set(err, DL_ERR_USAGE, "--batch is missing: samples of a step");
    }
    int64_t *batches = dl_calloc(paths->count, sizeof *batches, "batch sizes");
    dl_step_costs *steps = dl_calloc(paths->count, sizeof *steps, "costs");
    dl_notes notes = {0};
    dl_costs costs = {0};
    size_t taken = 0;
    dl_overlap_slowdown slowdown = {.factor = 1};
    const dl_overlap_slowdown *given = set->overlap_trace != NULL ? &slowdown : NULL;
    dl_status status = parse_batches(set->batches, batches, paths->count, err);
    if (status == DL_OK) status = check_output(paths, set, err);
    if (status == DL_OK && given != NULL) status = find_slowdown(&slowdown, set, &notes, err);
    while (taken < paths->count && status == DL_OK) {
        status =
            take_file(&steps[taken], paths->items[taken], batches[taken], set, given, &notes, err);
        taken++;
        if (status == DL_OK) print(paths->items[taken - 1], &steps[taken - 1]);
    }
    if (status == DL_OK) {
        status = dl_step_costs_combine(&costs, steps, paths->count, &notes, err);
    }
    if (status == DL_OK) status = write(&costs, paths, set, &notes, err);
    status = dl_outputs_end(status, err);
    if (status == DL_OK) {
        if (notes.count > 0) printf("notes:\n");
        dl_notes_print(&notes, stdout);
        printf("costs written to %s\n", set->output);
    }
    for (size_t i = 0; i < taken; i++)
        dl_step_costs_free(&steps[i]);
    dl_costs_free(&costs);
    dl_notes_free(&notes);
    free(steps);
    free(batches);
    return status;
}

static void list_options(settings *set, dl_option table[OPTION_COUNT])
{
    const dl_option own[OPTION_COUNT] = {
        DL_OPT_TEXT("batch", 'b', &set->batches, "SAMPLES",
                    "Samples of a step on the traced GPU, which traces do not give: one number, or "
                    "one for each trace, with commas. Must be given."),
        DL_OPT_TEXT("output", 'o', &set->output, "FILE", "Cost file to write."),
        DL_OPT_TEXT("workload", 0, &set->workload, "NAME", "What it is, for the cost file."),
        DL_OPT_INT(
            "state-bytes", 0, &set->state_bytes, -1, INT64_MAX / 4, "BYTES",
            "Bytes of one worker's optimizer state, for modes that exchange it; -1 = unknown."),
        DL_OPT_TEXT("overlap-trace", 0, &set->overlap_trace, "TRACE",
                    "Trace of the same sort of device, of any workload, whose slowdown beside "
                    "collectives is taken: for traces without collectives."),
        DL_OPT_REGEX("step-marks", 0, &set->hints.marks, "REGEX",
                     "Ranges that are training steps, as an extended regular expression."),
    };
    memcpy(table, own, sizeof own);
}

int dl_calibrate_costs(int argc, char **argv)
{
    settings set = {.output = "costs.ini", .state_bytes = -1};
    dl_option options[OPTION_COUNT];
    list_options(&set, options);
    const dl_command command = {
        .program = argv[0],
        .positional = "TRACE...",
        .summary = "Takes what a step costs from one rank's trace of any training program "
                   "(PyTorch, Nsight Systems, dlprof run), or from traces at several batch sizes: "
                   "forward, backward and update on the device, the host's time to issue a step, "
                   "when gradients are ready, input, slowdown beside collectives. dlsim predicts "
                   "from the cost file what more GPUs give.",
        .options = options,
        .option_count = OPTION_COUNT,
        .positional_min = 1,
        .positional_max = 1000,
    };
    const dl_trace_command of_traces = {
        .command = command, .run = take_all, .user = &set, .read = &set.read};
    return dl_trace_command_main(&of_traces, argc, argv);
}
