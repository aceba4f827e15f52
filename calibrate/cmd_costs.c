#include "calibrate/commands.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calibrate/calibration.h"
#include "calibrate/notes.h"
#include "calibrate/replay/step_costs.h"
#include "calibrate/trace_inputs.h"
#include "common/alloc.h"
#include "common/names.h"
#include "common/output.h"
#include "common/rows.h"
#include "common/units.h"
#include "sim/costs/assume.h"
#include "sim/island/axes.h"
#include "sim/scenario/known_gpus.h"
#include "sim/scenario/machine_catalogue.h"

#define PROGRAM "dlcal costs"
#define PARAMETER_NUMBER_BYTES 4 /* bytes per parameter of --parameters: fp32 */

enum { GRADIENTS_DDP, GRADIENTS_NONE };
static const char *const stage_kinds[] = {"traced", "alike", NULL};
static const char *const gradient_kinds[] = {"ddp", "none", NULL};

typedef struct settings {
    const char *output, *batches, *workload;
    const char *overlap_trace;            /* NULL: the traces' own slowdown */
    dl_text_list copies;                  /* traces of dlprof bench --of */
    const char *device;                   /* NULL: the traces' device */
    int64_t state_bytes, parameter_bytes; /* -1: not given */
    /* Texts of the options for these; parameters: their number; NULL: not given. */
    const char *state, *parameter_size, *parameters;
    int64_t cores;   /* 0: from the traces */
    int gradients;   /* index into gradient_kinds */
    int external;    /* dl_external */
    bool incomplete; /* steps may lack a pass or an update */
    dl_step_hints hints;
    dl_read_options read;
    int alike; /* 1: all stages of a pipeline take as long as the traced one */
} settings;

/* Parses the batch sizes: one for all traces, or one for each. */
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
            status =
                dl_error_set(err, DL_ERR_USAGE, "--batch: more numbers than traces (%zu)", count);
        }
    }
    free(copy);
    if (status != DL_OK) return status;
    if (known != 1 && known != count) {
        return dl_error_set(err, DL_ERR_USAGE,
                            "--batch: expected one number, or one for each of the %zu traces",
                            count);
    }
    for (; known < count; known++)
        batches[known] = batches[0];
    return DL_OK;
}

/* Returns the number of images of a common size, each with a label of 8 bytes, that equal the
 * `bytes` that a step copies to its GPU, and describes them in text[size]; 0: no match. */
static int64_t images_of(double bytes, char *text, size_t size)
{
    static const struct {
        int channels, pixels, number_bytes;
        const char *numbers;
    } kinds[] = {{3, 224, 4, "floats"}, {3, 224, 2, "halves"}, {3, 224, 1, "bytes"},
                 {3, 32, 4, "floats"},  {3, 32, 1, "bytes"},   {1, 28, 4, "floats"}};
    for (size_t i = 0; i < DL_LENGTH(kinds); i++) {
        const double each = kinds[i].channels * pow(kinds[i].pixels, 2) * kinds[i].number_bytes + 8;
        const double images = round(bytes / each);
        if (images < 1 || images > INT32_MAX || fabs(bytes - images * each) >= 0.5) continue;
        snprintf(text, size, "%.0f images of %d x %d x %d %s with their labels", images,
                 kinds[i].channels, kinds[i].pixels, kinds[i].pixels, kinds[i].numbers);
        return (int64_t)images;
    }
    return 0;
}

static dl_status check_batch(const dl_step_costs *costs, const dl_trace *trace, const char *path,
                             int64_t batch, dl_notes *notes, dl_error *err)
{
    char images[120];
    const bool shown = dl_trace_meta(trace, DL_META_SAMPLES) != NULL;
    const int64_t count = shown ? 0 : images_of(costs->input_bytes.value, images, sizeof images);
    if (batch > 0 && count > 0 && batch != count) {
        dl_notes_add(notes, "a step copies %s to the GPU, exactly %s: is --batch %lld right?",
                     DL_BYTES_TEXT(costs->input_bytes.value), images, (long long)batch);
    }
    if (batch > 0 || shown) return DL_OK;
    if (count > 0) {
        return dl_error_set_at(err, DL_ERR_USAGE, path, 0,
                               "--batch (samples per step) is missing and the trace has no shapes "
                               "to take it from. A step copies %s to the GPU, exactly %s: try "
                               "--batch %lld",
                               DL_BYTES_TEXT(costs->input_bytes.value), images, (long long)count);
    }
    return dl_error_set_at(err, DL_ERR_USAGE, path, 0,
                           "--batch (samples per step) is missing, and the trace does not show it: "
                           "it has no shapes (record_shapes=True of PyTorch's profiler), or none "
                           "of a convolution, embedding or linear layer (torch.compile hides "
                           "them)");
}

/* Sets the batch, unless it is `given` by the user, to the samples of a pass as the trace's shapes
 * show them, times the passes of a step. Notes a given batch that contradicts the shapes. */
static void take_batch(dl_step_costs *costs, const dl_trace *trace, int64_t given, dl_notes *notes)
{
    const int64_t shown = dl_trace_meta_int(trace, DL_META_SAMPLES, 1, INT32_MAX, 0);
    const int64_t passes = (int64_t)costs->passes;
    const int64_t second = dl_trace_meta_int(trace, DL_META_SAMPLES_OR, 1, INT32_MAX, 0);
    DL_AUTOFREE char *of =
        second > 0 ? dl_format("%s show (%lld if sequences come first)",
                               dl_trace_meta_text(trace, DL_META_SAMPLES_OF), (long long)second)
                   : dl_format("%s show", dl_trace_meta_text(trace, DL_META_SAMPLES_OF));
    if (given == 0 && passes > 1) {
        costs->batch = shown * passes;
        dl_notes_add(notes,
                     "a batch of %lld samples is taken: a step accumulates the gradients of %lld "
                     "passes of %lld each, as the inputs of %s: --batch gives another",
                     (long long)costs->batch, (long long)passes, (long long)shown, of);
    } else if (given == 0) {
        costs->batch = shown;
        dl_notes_add(notes,
                     "a batch of %lld samples is taken, as the inputs of %s: "
                     "--batch gives another",
                     (long long)shown, of);
    } else if (shown > 0 && given % shown != 0 && !(second > 0 && given % second == 0)) {
        dl_notes_add(notes,
                     "--batch %lld is not a multiple of %lld, as the inputs of %s: "
                     "is it right?",
                     (long long)given, (long long)shown, of);
    } else if (shown > 0 && passes == 1 && given != shown && given != second) {
        dl_notes_add(notes,
                     "the trace shows one pass a step, of %lld samples, as the inputs of %s: is "
                     "--batch %lld right?",
                     (long long)shown, of, (long long)given);
    } else if (shown > 0 && given != shown * passes && given != second * passes) {
        dl_notes_add(notes,
                     "a step accumulates the gradients of %lld passes of %lld samples each: is "
                     "--batch %lld right for the whole step?",
                     (long long)passes, (long long)shown, (long long)given);
    }
}

/* Maximum fraction of a plausible step spent in one pass or in the update. */
#define PASS_FRAC_MAX 0.99

/* Time in ns of a phase's compute operations. */
static double computing_ns(const dl_step_costs *costs, const char *phase)
{
    double sum_ns = 0;
    for (size_t i = 0; i < costs->op_count; i++) {
        const char *name = costs->ops[i].name;
        const bool moves = strncmp(name, "memcpy.", 7) == 0 || strncmp(name, "memset.", 7) == 0 ||
                           strncmp(name, "external.", 9) == 0;
        if (!moves && dl_ends_with(name, phase)) sum_ns += costs->ops[i].ns.value;
    }
    return sum_ns;
}

/* Minimum fraction of steps with an optimizer's update. GradScaler skips some updates; of
 * micro-batches that accumulate gradients, at most every second one has an update. A single step
 * without one may be truncated. */
#define UPDATED_FRAC_MIN 0.75

static dl_status check_updates(const dl_step_costs *costs, const char *path, dl_error *err)
{
    const double known = (double)costs->known_steps, updated = (double)costs->updated_steps;
    if (updated == 0 || updated >= UPDATED_FRAC_MIN * known || known - updated < 2) return DL_OK;
    return dl_error_set_at(
        err, DL_ERR_DATA, path, 0,
        "only %zu of %zu steps hold an optimizer's update: they are micro-batches, "
        "whose gradients accumulate. Record four updates or more, or have only "
        "whole steps marked (prof.step() after the update); --incomplete takes "
        "them as they are",
        costs->updated_steps, costs->known_steps);
}

/* Checks that a step has a forward pass, a backward pass and an update, as in training, none of
 * which takes more than PASS_FRAC_MAX of the total time of the three. Hooks of the backward pass
 * may update. */
static dl_status check_step(const dl_step_costs *costs, const char *path, dl_error *err)
{
    static const char *const names[] = {"forward pass", "backward pass", "update"};
    static const char *const phases[] = {".forward", ".backward", ".update"};
    double ns[3], all_ns = 0;
    size_t longest = 0;
    DL_AUTOFREE char *lacks = NULL;
    for (size_t i = 0; i < 3; i++) {
        ns[i] = computing_ns(costs, phases[i]);
        all_ns += ns[i];
        if (ns[i] > ns[longest]) longest = i;
        if (!(ns[i] > 0) && !(i == 2 && costs->updates_inside))
            dl_join(&lacks, " and no ", names[i]);
    }
    if (lacks == NULL && ns[longest] <= PASS_FRAC_MAX * all_ns) return DL_OK;
    const bool inference = !(ns[1] > 0) && !(ns[2] > 0);
    DL_AUTOFREE char *what = lacks != NULL ? dl_format("no %s is found in it", lacks)
                                           : dl_format("%.1f %% of it is the %s",
                                                       100 * ns[longest] / all_ns, names[longest]);
    const dl_status status = dl_error_set_at(
        err, DL_ERR_DATA, path, 0,
        "is a step of %s a training step? %s (forward %.1f %%, backward %.1f %%, update %.1f %%): "
        "%s. --step-marks, --step-period or --one-step define a step; --incomplete accepts it "
        "unchanged",
        DL_NS_TEXT(costs->step_ns), what, 100 * ns[0] / all_ns, 100 * ns[1] / all_ns,
        100 * ns[2] / all_ns,
        inference ? "inference has neither; in training without ranges of a framework "
                    "(PyTorch's profiler with ProfilerActivity.CPU) names of kernels may not show "
                    "them, nor do CUDA graphs that are recorded as a whole"
                  : "it may be part of a step, such as a layer or a micro-batch, or the update may "
                    "run elsewhere (on a server)");
    return status;
}

/* Checks that the batch of a step is a multiple of its passes, as the costs describe one pass. */
static dl_status check_passes(const dl_step_costs *costs, const char *path, dl_error *err)
{
    const int64_t passes = (int64_t)costs->passes;
    if (costs->batch % passes == 0) return DL_OK;
    return dl_error_set_at(err, DL_ERR_USAGE, path, 0,
                           "--batch %lld (samples per step) is not a multiple of the %lld passes "
                           "whose gradients a step accumulates",
                           (long long)costs->batch, (long long)passes);
}

/* Returns whether all processes have a value of the key, and every later value differs from the
 * first. */
static bool tells_apart(const dl_trace_inputs *in, const char *key)
{
    const char *first = dl_trace_meta(in->traces[0], key);
    for (size_t i = 1; i < in->count && first != NULL; i++) {
        const char *value = dl_trace_meta(in->traces[i], key);
        if (value == NULL || strcmp(value, first) == 0) return false;
    }
    return first != NULL;
}

/* Checks that there is one process; otherwise the error lists them, so that the user can select
 * one. */
static dl_status check_process(const dl_trace_inputs *in, const char *path, dl_error *err)
{
    if (in->count == 0) {
        return dl_error_set_at(err, DL_ERR_DATA, path, 0,
                               "no process in it computed on a GPU or with a framework's operators "
                               "on cores, so it has no costs");
    }
    if (in->count == 1 && dl_trace_meta(in->traces[0], DL_META_MERGED) != NULL)
        return dl_error_set_at(err, DL_ERR_DATA, path, 0,
                               "its calls are of several processes, as of merged traces: costs are "
                               "taken from the trace of one");
    if (in->count == 1) return DL_OK;
    const char *by = tells_apart(in, "rank") ? "rank" : tells_apart(in, "pid") ? "pid" : NULL;
    DL_AUTOFREE char *list = NULL;
    for (size_t i = 0; i < in->count; i++) {
        const dl_trace *trace = in->traces[i];
        DL_AUTOFREE char *one = by != NULL
                                    ? dl_format("%s %s", by[0] == 'r' ? "--rank" : "--process",
                                                dl_trace_meta(trace, by))
                                    : dl_strdup(trace->path);
        dl_join(&list, ", ", one);
    }
    return dl_error_set_at(
        err, DL_ERR_DATA, path, 0,
        "it holds %zu training processes, but costs are taken from one: %s %.300s", in->count,
        by != NULL ? "choose" : "give one of", list);
}

static void note_cut(const dl_trace *trace, const char *path, dl_notes *notes)
{
    if (trace->complete) return;
    dl_notes_add(notes, "%s is truncated (killed run, full disk): its complete steps are used",
                 dl_base_name(path));
}

static dl_status take_file(dl_step_costs *costs, const char *path, int64_t batch,
                           const settings *set, const dl_overlap_slowdown *slowdown,
                           dl_external external, dl_notes *notes, dl_error *err)
{
    DL_SCOPED(dl_trace_inputs) in = {.cores = true};
    dl_status status = dl_trace_inputs_read(&in, path, &set->read, PROGRAM, err);
    if (status == DL_OK) status = check_process(&in, path, err);
    if (status == DL_OK) note_cut(in.traces[0], path, notes);
    for (size_t i = 0; i < in.notes.count && status == DL_OK; i++)
        dl_notes_add(notes, "%s", in.notes.lines[i]);
    if (status == DL_OK) {
        status = dl_step_costs_take(costs, in.traces[0], batch, &set->hints, slowdown, external,
                                    notes, err);
        if (status != DL_OK && err->file[0] == '\0')
            snprintf(err->file, sizeof err->file, "%s", path);
    }
    if (status == DL_OK) costs->file = dl_strdup(dl_base_name(path));
    if (status == DL_OK) status = check_batch(costs, in.traces[0], path, batch, notes, err);
    if (status == DL_OK) take_batch(costs, in.traces[0], batch, notes);
    if (status == DL_OK && set->hints.one_step && costs->alternates)
        dl_notes_add(notes,
                     "--one-step: an update lies between two passes: with one optimizer "
                     "this is more than one step, and step and batch do not belong together");
    return status;
}

/* Takes the slowdown of kernels that overlap collectives from another trace; the user must give one
 * of the same device model. */
static dl_status find_slowdown(dl_overlap_slowdown *slowdown, const settings *set, dl_notes *notes,
                               dl_error *err)
{
    DL_SCOPED(dl_step_costs) other = {0};
    DL_SCOPED(dl_notes) ignored = {0};
    dl_status status =
        take_file(&other, set->overlap_trace, 1, set, NULL, DL_EXTERNAL_REMOVE, &ignored, err);
    if (status == DL_OK && !other.slowdown.known) {
        status = dl_error_set_at(err, DL_ERR_DATA, set->overlap_trace, 0,
                                 "too little work ran during collectives, or without them");
    }
    if (status == DL_OK) {
        *slowdown = other.slowdown;
        dl_notes_add(notes, "[overlap] slowdown is that of %s (%s)",
                     dl_base_name(set->overlap_trace),
                     other.device != NULL ? other.device : "device unknown");
    }
    return status;
}

static void add_mean(dl_rows *to, const char *name, dl_step_mean mean, double of_ns)
{
    dl_rows_add(to, "|part=%-s |time=%gns |error=%gns |share %%=%.1f%%", name, mean.value,
                mean.error, mean.value / of_ns);
}

static void print(const char *path, const dl_step_costs *c)
{
    const double step_ns = c->on_cores ? c->device_ns : c->step_ns;
    dl_rows to = {.out = stdout, .indent = 2};
    printf("%s: %lld samples, %zu steps of %s\n", dl_base_name(path), (long long)c->batch, c->steps,
           DL_NS_TEXT(step_ns));
    if (c->on_cores) {
        printf("  (mean");
        if (c->collectives > 0)
            printf(" without collectives; with them %s", DL_NS_TEXT(c->step_ns));
        printf(")\n");
    } else {
        printf("  (device alone %s, host alone %s)\n", DL_NS_TEXT(c->device_ns),
               isnan(c->host_ns) ? "unknown" : DL_NS_TEXT(c->host_ns));
    }
    dl_rows_begin(&to, NULL, NULL);
    add_mean(&to, "forward", c->forward_ns, step_ns);
    add_mean(&to, "backward", c->backward_ns, step_ns);
    add_mean(&to, "update", c->update_ns, step_ns);
    dl_rows_end(&to, 0);
    if (c->slowdown.known) {
        printf("  during collectives %.3f +- %.3f times as long (%zu operations)\n",
               c->slowdown.factor, c->slowdown.error, c->slowdown.works);
    }
    double before = 0;
    for (size_t i = 0; i < c->gradient_count; i++) {
        printf("  gradients: %10s ready after %5.1f %% of the backward pass\n",
               DL_BYTES_TEXT(c->gradients[i].bytes - before), 100 * c->gradients[i].share);
        before = c->gradients[i].bytes;
    }
}

/* Assumes buckets of PyTorch's DistributedDataParallel: from each parameter's gradients if a trace
 * has all of them, else from their sum. */
static void assume_buckets(dl_costs *costs, const dl_step_costs *steps, size_t count,
                           dl_notes *notes)
{
    const char *when = "evenly over the backward pass";
    for (size_t i = 0; i < count && costs->gradient_count == 0; i++) {
        const dl_gradients_ready *added = steps[i].added;
        const size_t last = steps[i].added_count;
        if (last == 0 || added[last - 1].bytes != (double)costs->parameter_bytes) continue;
        dl_costs_fill_buckets(costs, added, last);
        when = "as the trace adds the gradients up";
    }
    if (costs->gradient_count == 0) dl_costs_assume_buckets(costs);
    dl_notes_add(notes,
                 "[gradients] and overlap = yes are assumed: PyTorch's DistributedDataParallel "
                 "sends a bucket of 1 MiB, then of 25 MiB, ready %s (--gradients none leaves them "
                 "out)",
                 when);
}

/* Sets the parameters of the model, and those of its layers, which sum to them: in proportion to
 * what the traces show, else evenly. */
static void set_parameters(dl_costs *costs, double bytes, dl_notes *notes)
{
    double sum = 0;
    bool known = true;
    costs->parameter_bytes = (int64_t)bytes;
    for (size_t i = 0; i < costs->layer_count; i++) {
        known = known && costs->layers[i].parameter_bytes.known;
        sum += costs->layers[i].parameter_bytes.value;
    }
    for (size_t i = 0; i < costs->layer_count; i++) {
        dl_value *own = &costs->layers[i].parameter_bytes;
        const double frac = known && sum > 0 ? own->value / sum : 1 / (double)costs->layer_count;
        *own = (dl_value){.known = true, .value = frac * bytes, .origin = DL_ORIGIN_ASSUMED};
    }
    if (costs->layer_count > 1) {
        dl_notes_add(notes, "the given parameters are divided among the stages %s",
                     known && sum > 0 ? "in proportion to their gradients"
                                      : "evenly, as the traces do not show those of each");
    }
}

/* Sets parameter_bytes, if given. Unless the traces are of pipeline stages, also sets `overlap`,
 * notes an unknown GPU and, if no trace shows when gradients are exchanged, assumes the times (not
 * with --gradients none, nor if parameter_bytes is unknown). */
static void add_exchange(dl_costs *costs, const dl_step_costs *steps, size_t count,
                         const settings *set, dl_notes *notes)
{
    if (set->parameter_bytes >= 0) set_parameters(costs, (double)set->parameter_bytes, notes);
    if (steps[0].axes.stages > 1) return;
    if (!steps[0].on_cores && costs->device == NULL && set->device == NULL) {
        dl_notes_add(notes, "the trace does not name its GPU (--device does): dlsim uses the times "
                            "for the GPU of any machine");
    }
    if (costs->gradient_count > 0) {
        const double bytes = costs->gradients[costs->gradient_count - 1].bytes;
        if (set->parameter_bytes >= 0 && bytes != (double)set->parameter_bytes)
            dl_notes_add(notes,
                         "the given parameters, %s, are those that are averaged or sent to a "
                         "server; an all-reduce exchanges the trace's gradients, %s",
                         DL_BYTES_TEXT((double)set->parameter_bytes), DL_BYTES_TEXT(bytes));
        costs->overlap = costs->gradients[0].share < 1;
        if (costs->overlap) {
            dl_notes_add(notes, "overlap = yes: the trace's all-reduces start during the backward "
                                "pass");
        }
    } else if (costs->parameter_bytes > 0 && set->gradients == GRADIENTS_DDP) {
        assume_buckets(costs, steps, count, notes);
    }
}

static dl_status write(dl_costs *costs, const dl_text_list *paths, const settings *set,
                       const dl_notes *notes, dl_error *err)
{
    DL_SCOPED(dl_notes) from = {0};
    DL_AUTOFREE char *line = dl_format("dlcal costs %s of", dl_version());
    for (size_t i = 0; i < paths->count; i++)
        dl_join(&line, " ", dl_base_name(paths->items[i]));
    dl_notes_add(&from, "%s", line);
    if (set->workload != NULL) costs->workload = dl_strdup(set->workload);
    costs->state_bytes = set->state_bytes;
    if (set->cores > 0) costs->cores = set->cores;
    if (set->device != NULL) {
        free(costs->device);
        costs->device = dl_strdup(set->device);
    }
    for (size_t i = 0; i < notes->count; i++)
        DL_APPEND(costs->notes, costs->note_count, "notes") = dl_strdup(notes->lines[i]);
    const dl_notes none = {0};
    return dl_cost_file_write(costs, set->output, &from, &none, err);
}

static dl_status check_output(const dl_text_list *paths, const settings *set, dl_error *err)
{
    const dl_file_role output = {"--output", set->output};
    const dl_file_role overlap = {"--overlap-trace", set->overlap_trace};
    const dl_status status =
        dl_outputs_check_paths(&output, 1, "a trace", paths->items, paths->count, err);
    return status == DL_OK ? dl_outputs_check(&output, 1, &overlap, 1, err) : status;
}

static void scale_value(dl_value *value, double factor)
{
    value->value *= factor;
    value->error *= factor;
}

/* Scales the operations so that a step at the benchmark's first batch size takes as long as one
 * copy alone took in the benchmark; no effect if it did not measure one copy. */
static dl_status scale_to_alone(dl_costs *costs, const dl_dataset *data, dl_notes *notes,
                                dl_error *err)
{
    DL_AUTOFREE double *values = NULL;
    size_t count = 0;
    int64_t batch = 0;
    for (size_t b = 0; b < data->bench_count; b++) {
        for (size_t i = 0; i < data->benches[b].count; i++) {
            const dl_record *sample = &data->benches[b].samples[i];
            if (sample->name != DL_SAMPLE_STEP || sample->vectors != 1) continue;
            if (batch == 0) batch = sample->samples;
            if (sample->samples != batch) continue;
            DL_APPEND(values, count, "steps") = (double)sample->duration_ns;
        }
    }
    dl_estimate alone = {0};
    const double traced_ns = dl_costs_step_ns(costs, (double)batch, NULL);
    dl_status status = count > 0 ? dl_fit_location(values, count, &alone, err) : DL_OK;
    if (status != DL_OK || count == 0 || traced_ns <= 0) return status;
    const double factor = alone.value / traced_ns;
    for (size_t i = 0; i < costs->op_count; i++) {
        scale_value(&costs->ops[i].fixed_ns, factor);
        scale_value(&costs->ops[i].per_sample_ns, factor);
    }
    dl_notes_add(notes,
                 "a step of %lld samples of one copy (--copies) takes %s, %.3f times the sum of "
                 "the operations: they are scaled to it",
                 (long long)batch, DL_NS_TEXT(alone.value), factor);
    return DL_OK;
}

/* Fits [sharing] to traces of concurrent copies of the program (dlprof bench --of), and scales the
 * operations to the step time of one copy without a profiler. */
static dl_status take_copies(dl_costs *costs, const dl_text_list *paths, dl_notes *notes,
                             dl_error *err)
{
    DL_SCOPED(dl_dataset) data = {0};
    DL_SCOPED(dl_contention_fit) fit = {0};
    dl_status status = DL_OK;
    for (size_t i = 0; i < paths->count && status == DL_OK; i++)
        status = dl_dataset_add(&data, paths->items[i], notes, err);
    if (status == DL_OK) dl_dataset_leave_out_disturbed(&data, notes);
    if (status == DL_OK) status = dl_contention_fit_factors(&data, &fit, costs, notes, err);
    if (status == DL_OK) status = scale_to_alone(costs, &data, notes, err);
    for (int k = 2; k <= DL_SHARING_MAX && status == DL_OK; k++) {
        if (!costs->sharing[k].known) continue;
        printf("  %d concurrent copies: a step takes %.3f +- %.3f times as long\n", k,
               costs->sharing[k].value, costs->sharing[k].error);
    }
    return status;
}

#define USUAL_BOX 8 /* number of GPUs of a common machine */

/* Returns a list such as "8,1,2,4": first the trace's own number of ranks, for which a step was
 * measured. */
static char *workers_to_try(int64_t ranks)
{
    char *list = ranks > 1 ? dl_format("%lld", (long long)ranks) : NULL;
    for (int64_t n = 1; n <= USUAL_BOX; n *= 2) {
        if (n != ranks || ranks <= 1) dl_join_format(&list, ",", "%lld", (long long)n);
    }
    return list;
}

/* Returns the options that repeat the traced job: its layout and its replicas; NULL: each rank is a
 * worker. */
static char *layout_of(const dl_costs *costs, const dl_step_costs *step)
{
    const dl_step_axes *axes = &step->axes;
    const int size[DL_AXES] = {[DL_AXIS_TP] = (int)axes->tensor,
                               [DL_AXIS_PP] = (int)axes->stages,
                               [DL_AXIS_FSDP] = (int)axes->shards};
    DL_AUTOFREE char *layout = dl_axes_text(size, NULL);
    if (layout == NULL) return NULL;
    const int64_t gpus = dl_axes_gpus(size);
    const int64_t workers = step->ranks > gpus ? step->ranks / gpus : 1;
    const int64_t batch = step->batch * dl_axes_batches(size);
    DL_AUTOFREE char *micro =
        axes->stages > 1 ? dl_format(" --micro-batches %zu", step->passes) : dl_strdup("");
    const bool gpipe = costs->traces[0].schedule == DL_SCHEDULE_GPIPE;
    return dl_format("--layout %s --workers %lld --batch-per-worker %lld%s%s", layout,
                     (long long)workers, (long long)batch, micro,
                     gpipe ? " --set pipeline.schedule=gpipe" : "");
}

static void print_next(const dl_costs *costs, const dl_step_costs *step, const char *file)
{
    dl_gpu_model known = {0};
    const int64_t ranks = costs->trace_count > 0 ? costs->traces[0].ranks : 1;
    if (costs->device != NULL) dl_known_gpu(costs->device, &known);
    /* More GPUs than fit in one box require several boxes, whose network is unknown. */
    const char *network = ranks > USUAL_BOX ? "@NETWORK" : "";
    DL_AUTOFREE char *usual = known.name != NULL ? dl_machine_usual(known.name, USUAL_BOX) : NULL;
    DL_AUTOFREE char *machine = costs->cores > 0 ? dl_strdup("")
                                : usual != NULL  ? dl_format("--machine %s%s ", usual, network)
                                                 : dl_strdup("--machine NAME ");
    DL_AUTOFREE char *workers = workers_to_try(ranks), *layout = layout_of(costs, step);
    if (layout != NULL) {
        printf("next: dlsim --costs %s %s%s (the traced job; other numbers of workers are other "
               "dp)\n",
               file, machine, layout);
    } else {
        printf("next: dlsim --costs %s %s%s%s%s--workers %s --mode allreduce%s%s\n", file, machine,
               step->loaders[0] != '\0' ? "--set input.loaders=" : "", step->loaders,
               step->loaders[0] != '\0' ? " " : "", workers,
               costs->sharded != DL_SHARDED_NONE ? "" : ",average",
               costs->cores > 0 ? ""
               : ranks > 1      ? " (the trace's own number first; dlsim --machines lists others)"
                                : " (dlsim --machines lists others)");
    }
    free(known.name);
}

/* Sets *bytes from an option's text, unless this is NULL. */
static dl_status take_bytes(const char *option, const char *text, int64_t *bytes, dl_error *err)
{
    double value = 0;
    dl_error inner = {0};
    if (text == NULL) return DL_OK;
    dl_status status = dl_amount_parse(text, DL_DIMENSION_BYTES, &value, &inner);
    if (status == DL_OK) status = dl_amount_check(value, DL_DIMENSION_BYTES, 0, 1e18, text, &inner);
    if (status != DL_OK)
        return dl_error_set(err, DL_ERR_USAGE, "%s: '%s': %s", option, text, inner.text);
    *bytes = (int64_t)value;
    return DL_OK;
}

/* Sets the sizes of parameters and optimizer state from the options' texts. */
static dl_status take_sizes(settings *set, dl_error *err)
{
    double count = 0;
    dl_error inner = {0};
    dl_status status = take_bytes("--state-bytes", set->state, &set->state_bytes, err);
    if (status == DL_OK)
        status = take_bytes("--parameter-bytes", set->parameter_size, &set->parameter_bytes, err);
    if (status != DL_OK || set->parameters == NULL) return status;
    if (set->parameter_bytes >= 0) {
        return dl_error_set(err, DL_ERR_USAGE,
                            "--parameters and --parameter-bytes: give only one of them");
    }
    if (dl_parse_count(set->parameters, &count, &inner) != DL_OK)
        return dl_error_set(err, DL_ERR_USAGE, "--parameters: %s", inner.text);
    set->parameter_bytes = (int64_t)(count * PARAMETER_NUMBER_BYTES);
    return DL_OK;
}

/* Maximum relative difference of the parameters of two traces of one model: shapes may count the
 * gradients of a batch's own values too. */
#define MODELS_DIFFER_MAX 0.1

/* Returns the bytes of the parameters of a trace; 0: unknown. */
static double model_bytes(const dl_step_costs *steps)
{
    return steps->gradient_count > 0 && !(steps->parameter_bytes > 0)
               ? steps->gradients[steps->gradient_count - 1].bytes
               : fmax(0, steps->parameter_bytes);
}

/* Refuses traces of models of different sizes, whose costs have no common line over batch sizes. */
static dl_status check_models(const dl_step_costs *steps, const dl_text_list *paths, dl_error *err)
{
    size_t first = 0; /* with known parameters */
    for (size_t i = 0; i < paths->count; i++) {
        const double one = model_bytes(&steps[first]), other = model_bytes(&steps[i]);
        if (one == 0) first = i;
        if (one == 0 || other == 0 || fabs(other / one - 1) <= MODELS_DIFFER_MAX) continue;
        return dl_error_set_at(
            err, DL_ERR_DATA, paths->items[i], 0,
            "it shows %s of parameters, %s shows %s: several traces must be of "
            "one model, with the same exchange; --parameter-bytes gives its size",
            DL_BYTES_TEXT(other), dl_base_name(paths->items[first]), DL_BYTES_TEXT(one));
    }
    return DL_OK;
}

static dl_status take_all(const dl_text_list *paths, void *user, dl_error *err)
{
    settings *set = user;
    DL_AUTOFREE int64_t *batches = dl_calloc(paths->count, sizeof *batches, "batch sizes");
    DL_AUTOFREE dl_step_costs *steps = dl_calloc(paths->count, sizeof *steps, "costs");
    DL_SCOPED(dl_notes) notes = {0};
    DL_SCOPED(dl_costs) costs = {0};
    size_t taken = 0;
    dl_overlap_slowdown slowdown = {.factor = 1};
    const dl_overlap_slowdown *given = set->overlap_trace != NULL ? &slowdown : NULL;
    dl_status status = DL_OK;
    status = take_sizes(set, err);
    if (status == DL_OK && set->batches != NULL)
        status = parse_batches(set->batches, batches, paths->count, err);
    if (status == DL_OK) status = check_output(paths, set, err);
    if (status == DL_OK && given != NULL) status = find_slowdown(&slowdown, set, &notes, err);
    while (taken < paths->count && status == DL_OK) {
        status = take_file(&steps[taken], paths->items[taken], batches[taken], set, given,
                           (dl_external)set->external, &notes, err);
        if (status == DL_OK && !set->incomplete)
            status = check_updates(&steps[taken], paths->items[taken], err);
        if (status == DL_OK && !set->incomplete)
            status = check_step(&steps[taken], paths->items[taken], err);
        if (status == DL_OK) status = check_passes(&steps[taken], paths->items[taken], err);
        taken++;
        if (status == DL_OK) print(paths->items[taken - 1], &steps[taken - 1]);
    }
    if (status == DL_OK && set->alike && steps[0].axes.stages < 2) {
        status = dl_error_set_at(err, DL_ERR_USAGE, paths->items[0], 0,
                                 "--stages alike: the trace is not of a pipeline's stage, as the "
                                 "rank does not send to other ranks of a named process group");
    }
    if (status == DL_OK && steps[0].axes.stages <= 1 && set->parameter_bytes < 0)
        status = check_models(steps, paths, err);
    if (status == DL_OK) {
        status = steps[0].axes.stages > 1
                     ? dl_stage_costs_combine(&costs, steps, paths->count, set->alike, &notes, err)
                     : dl_step_costs_combine(&costs, steps, paths->count, &notes, err);
    }
    if (status == DL_OK) add_exchange(&costs, steps, paths->count, set, &notes);
    if (status == DL_OK && costs.parameter_bytes < 0) {
        dl_notes_add(&notes,
                     "parameter_bytes is unknown, so dlsim assumes it: --parameter-bytes sets it");
    }
    if (status == DL_OK && set->copies.count > 0)
        status = take_copies(&costs, &set->copies, &notes, err);
    if (status == DL_OK) status = write(&costs, paths, set, &notes, err);
    status = dl_outputs_end(status, err);
    if (status == DL_OK) {
        dl_notes_print(&notes, "notes:\n", "  - ", stdout);
        printf("costs written to %s\n", set->output);
        print_next(&costs, &steps[0], set->output);
    }
    for (size_t i = 0; i < taken; i++)
        dl_step_costs_free(&steps[i]);
    return status;
}

static const char summary[] =
    "Take the costs of a step from one rank's trace of any training program (PyTorch, "
    "Nsight Systems, dlprof run), or from traces at several batch sizes: forward, "
    "backward and update on the device, the host's time to issue a step, when gradients "
    "are ready, input, slowdown during collectives. For PyTorch on cores without a GPU: "
    "the parts of a step without its waits. From the cost file, dlsim predicts more GPUs "
    "or processes.";

int dl_calibrate_costs(int argc, char **argv)
{
    settings set = {.output = "costs.ini", .state_bytes = -1, .parameter_bytes = -1};
    const dl_option options[] = {
        DL_OPT_TEXT("batch", 'b', &set.batches, "SAMPLES",
                    "Number of samples per step of the traced worker, one number or one per "
                    "trace (default: the first dimension of the layers' inputs, if the trace has "
                    "shapes).",
                    .group = "The traced run"),
        DL_OPT_TEXT("output", 'o', &set.output, "FILE", "Cost file to write.", .group = "Output"),
        DL_OPT_TEXT("workload", 0, &set.workload, "NAME", "Name of the workload in the cost file."),
        DL_OPT_TEXT("state-bytes", 0, &set.state, "BYTES",
                    "Size of one worker's optimizer state, for modes that exchange it (default: "
                    "unknown).",
                    .group = "The traced run"),
        DL_OPT_TEXT("parameter-bytes", 0, &set.parameter_size, "BYTES",
                    "Size of the parameters, as 102.4e6 or 102.4MB (default: that of the "
                    "collectives, or of the gradients if the trace has shapes)."),
        DL_OPT_TEXT("parameters", 0, &set.parameters, "COUNT",
                    "Number of the parameters, of 4 bytes each, in place of --parameter-bytes "
                    "(25.6e6, 25.6M)."),
        DL_OPT_TEXT("device", 0, &set.device, "NAME", "Name of the device (default: the trace's)."),
        DL_OPT_INT("cores", 0, &set.cores, 0, 1024, "COUNT",
                   "Number of cores of the traced machine (default: this machine's, if it was "
                   "the traced one)."),
        DL_OPT_CHOICE(
            "gradients", 0, &set.gradients, gradient_kinds, "KIND",
            "When gradients are ready, for traces without an all-reduce: ddp, during the "
            "backward pass in the buckets of PyTorch's DistributedDataParallel; none, unknown."),
        DL_OPT_CHOICE(
            "stages", 0, &set.alike, stage_kinds, "WHICH",
            "Stages that the trace of one pipeline stage describes: traced, only its own, so that "
            "each stage needs a trace; alike, all, which then take equally long."),
        DL_OPT_LIST("copies", 0, &set.copies, "TRACE",
                    "Trace of dlprof bench --of of the same program: how much concurrent copies "
                    "slow each other down, and the step without a profiler, to which the "
                    "operations are scaled.",
                    .group = "Other traces"),
        DL_OPT_TEXT("overlap-trace", 0, &set.overlap_trace, "TRACE",
                    "Trace of any workload on the same type of device, for the slowdown during "
                    "collectives if the other traces have none."),
        DL_OPT_FLAG("incomplete", 0, &set.incomplete,
                    "Also accept steps that lack a forward pass, a backward pass or an update, "
                    "or that one of them fills to more than 99 %: inference, or workers whose "
                    "updates a server applies.",
                    .group = "Reading traces"),
        DL_OPT_CHOICE(
            "external", 0, &set.external, dl_external_names, "WHICH",
            "Waits for events outside the trace that the step includes: threads, only the "
            "waits of the host's threads (an error if the step is then more than 5 % too "
            "short); keep, also the device's; remove, none.",
            .group = "Reading traces"),
    };
    const dl_command command = {
        .program = argv[0],
        .positional = "TRACE...",
        .summary = summary,
        .options = options,
        .option_count = DL_LENGTH(options),
        .positional_min = 1,
        .positional_max = 1000,
    };
    const int exit_status =
        dl_trace_command_main(&command, argc, argv, take_all, &set, &set.read, &set.hints);
    dl_text_list_free(&set.copies);
    return exit_status;
}
