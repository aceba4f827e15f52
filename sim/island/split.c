#include "sim/island/split.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/names.h"

void dl_pipeline_options_free(dl_pipeline_options *options)
{
    for (size_t c = 0; c < options->cut_count; c++)
        free(options->cuts[c]);
    free(options->cuts);
    *options = (dl_pipeline_options){0};
}

/* --- layers ---------------------------------------------------------------------------------- */

/* Length of the name before ".phase"; 0 if the operation belongs to another phase. */
static size_t layer_length(const char *name, const char *phase)
{
    const char *dot = strrchr(name, '.');
    return dot != NULL && strcmp(dot, phase) == 0 ? (size_t)(dot - name) : 0;
}

/* Finds a layer by name; -1 if there is none. Tries layer `near` first, as most lists have the same
 * order. */
static int find_layer_near(const dl_model_layers *model, int near, const char *name, size_t length)
{
    for (int n = 0; n < model->count; n++) {
        const int l = (near + n) % model->count;
        const char *own = model->layers[l].name;
        if (strncmp(own, name, length) == 0 && own[length] == '\0') return l;
    }
    return -1;
}

static int find_layer(const dl_model_layers *model, const char *name, size_t length)
{
    return find_layer_near(model, 0, name, length);
}

static int add_layer(dl_model_layers *model, const dl_costs *costs, const char *name, size_t length)
{
    dl_model_layer *layer = &model->layers[model->count];
    *layer = (dl_model_layer){
        .name = dl_strndup(name, length), .forward = -1, .backward = -1, .update = -1};
    for (size_t n = 0; n < costs->layer_count; n++) {
        const size_t c = ((size_t)model->count + n) % costs->layer_count;
        if (strcmp(costs->layers[c].name, layer->name) != 0) continue;
        layer->output_bytes = costs->layers[c].output_bytes_per_sample;
        layer->parameter_bytes = costs->layers[c].parameter_bytes;
        layer->activation_bytes = costs->layers[c].activation_bytes_per_sample;
        layer->working_bytes = costs->layers[c].working_bytes_per_sample.value;
        layer->cast_bytes = costs->layers[c].cast_bytes.value;
        layer->recast_bytes = costs->layers[c].recast_bytes.value;
        layer->tensor_bytes = costs->layers[c].tensor_bytes_per_sample.value;
        layer->tensor_calls[0] = costs->layers[c].tensor_collectives_backward.value;
        layer->tensor_calls[1] = costs->layers[c].tensor_collectives_forward.value;
        layer->beside_calls = costs->layers[c].tensor_collectives_beside.value;
        layer->beside_ns = costs->layers[c].tensor_beside_ns_per_sample.value;
        layer->context_bytes = costs->layers[c].context_bytes_per_sample.value;
        layer->block_ns[0] = costs->layers[c].context_backward_ns_per_sample.value;
        layer->block_ns[1] = costs->layers[c].context_forward_ns_per_sample.value;
        layer->rings_again = costs->layers[c].context_forward_again.value;
        layer->turns = costs->layers[c].context_alltoalls.value;
        layer->expert_bytes = costs->layers[c].expert_parameter_bytes.value;
        layer->exchange_bytes = costs->layers[c].expert_bytes_per_sample.value;
        layer->copies = costs->layers[c].expert_copies.value;
        layer->experts = costs->layers[c].expert_count.value;
        layer->exchanges[0] = costs->layers[c].expert_exchanges_backward.value;
        layer->exchanges[1] = costs->layers[c].expert_exchanges_forward.value;
        break;
    }
    return model->count++;
}

void dl_model_layers_init(dl_model_layers *model, const dl_costs *costs)
{
    static const char *const phases[] = {".forward", ".backward"};
    *model = (dl_model_layers){dl_calloc(costs->op_count, sizeof *model->layers, "layers"), 0};
    for (int p = 0; p < 2; p++) {
        int near = 0;
        for (size_t o = 0; o < costs->op_count; o++) {
            const char *name = costs->ops[o].name;
            const size_t length = layer_length(name, phases[p]);
            if (length == 0) continue;
            int l = p == 0 ? -1 : find_layer_near(model, near, name, length); /* one forward each */
            if (l < 0) l = add_layer(model, costs, name, length);
            *(p == 0 ? &model->layers[l].forward : &model->layers[l].backward) = (int)o;
            near = l + 1;
        }
    }
    int near = 0;
    for (size_t o = 0; o < costs->op_count; o++) {
        const char *name = costs->ops[o].name;
        const size_t length = layer_length(name, ".update");
        const int l = length > 0 ? find_layer_near(model, near, name, length) : -1;
        if (l < 0) continue;
        model->layers[l].update = (int)o;
        near = l + 1;
    }
}

void dl_model_layers_free(dl_model_layers *model)
{
    for (int l = 0; l < model->count; l++)
        free(model->layers[l].name);
    free(model->layers);
    *model = (dl_model_layers){0};
}

/* Time in ns of an operation at `batch`; 0 for op -1 (none). */
static double op_ns(const dl_costs *costs, int op, double batch)
{
    if (op < 0) return 0;
    return (costs->ops[op].fixed_ns.value + costs->ops[op].per_sample_ns.value * batch) *
           dl_costs_linearity(costs, costs->ops[op].name, batch);
}

/* --- places ----------------------------------------------------------------------------------- */

/* Distance in GPU numbers between neighbours along an axis. */
static int stride_of(const dl_split *split, dl_axis axis)
{
    const int sizes[DL_AXES] = {[DL_AXIS_TP] = split->tensor,
                                [DL_AXIS_CP] = split->context,
                                [DL_AXIS_EP] = split->experts,
                                [DL_AXIS_PP] = split->stages,
                                [DL_AXIS_FSDP] = dl_split_batches(split) / split->experts};
    int stride = 1;
    for (int a = 0; split->axes[a] != axis; a++)
        stride *= sizes[split->axes[a]];
    return stride;
}

int dl_split_gpu(const dl_split *split, int rank, int part)
{
    const int shard = dl_split_shard(split, rank);
    return dl_split_stage(split, rank) * stride_of(split, DL_AXIS_PP) +
           shard / split->context / split->experts * stride_of(split, DL_AXIS_FSDP) +
           dl_split_expert(split, shard) * stride_of(split, DL_AXIS_EP) +
           shard % split->context * stride_of(split, DL_AXIS_CP) +
           part * stride_of(split, DL_AXIS_TP);
}

int dl_split_rank_of(const dl_split *split, int gpu)
{
    const int groups = dl_split_batches(split) / split->experts;
    const int owner = gpu / stride_of(split, DL_AXIS_FSDP) % groups * split->context +
                      gpu / stride_of(split, DL_AXIS_CP) % split->context;
    return dl_split_rank(
        split, gpu / stride_of(split, DL_AXIS_PP) % split->stages,
        dl_split_owner(split, gpu / stride_of(split, DL_AXIS_EP) % split->experts, owner));
}

int dl_split_line(const dl_split *split, int stage, int line)
{
    const int stride = stride_of(split, DL_AXIS_PP);
    return (line / stride * split->stages + stage) * stride + line % stride;
}

/* --- cuts ------------------------------------------------------------------------------------ */

/* Time in ns of layers [from, to), where before[l] is the time of the layers before layer l;
 * negative sums count as 0. */
static double span(const double *before, int from, int to)
{
    const double ns = before[to] - before[from];
    return ns > 0 ? ns : 0;
}

/* Cuts the layers so that the longest stage is shortest. least[s][i]: smallest possible time of the
 * longest of s + 1 stages over the first i layers; from[s][i]: start of the last stage then. */
static void cut_evenly(const double *before, int layers, int stages, int *first)
{
    const size_t width = (size_t)layers + 1;
    DL_AUTOFREE double *least = dl_calloc((size_t)stages * width, sizeof *least, "cuts");
    DL_AUTOFREE int *from = dl_calloc((size_t)stages * width, sizeof *from, "cuts");
    bool grows = true;
    for (int i = 1; i <= layers; i++) {
        least[i] = span(before, 0, i);
        grows &= before[i] >= before[i - 1];
    }
    for (int s = 1; s < stages; s++) {
        const double *shorter = &least[(size_t)(s - 1) * width];
        int most = s; /* latest start worth trying for the last stage: if no layer's time is
                       * negative, later ones gain nothing */
        for (int i = s + 1; i <= layers; i++) {
            double *best = &least[(size_t)s * width + (size_t)i];
            *best = (double)INFINITY;
            while (most < i - 1 && (!grows || shorter[most] < span(before, most, i)))
                most++;
            /* For earlier starts the last stage alone is longer. */
            for (int j = most; j >= s && !(grows && span(before, j, i) > *best); j--) {
                const double last = span(before, j, i);
                const double longest = shorter[j] > last ? shorter[j] : last;
                if (longest > *best) continue;
                *best = longest;
                from[(size_t)s * width + (size_t)i] = j;
            }
        }
    }
    first[stages] = layers;
    for (int s = stages - 1; s > 0; s--)
        first[s] = from[(size_t)s * width + (size_t)first[s + 1]];
    first[0] = 0;
}

static dl_status cut_as_given(const dl_pipeline_options *options, const dl_model_layers *model,
                              int stages, int *first, dl_error *err)
{
    first[0] = 0;
    first[stages] = model->count;
    for (int s = 1; s < stages; s++) {
        const char *name = options->cuts[s - 1];
        first[s] = find_layer(model, name, strlen(name));
        if (first[s] > first[s - 1]) continue;
        if (first[s] >= 0) {
            return dl_error_set(err, DL_ERR_NAME,
                                "[pipeline] split: '%s' is not after the first layer of the "
                                "stage before",
                                name);
        }
        DL_AUTOFREE const char **names =
            dl_calloc((size_t)model->count, sizeof *names, "names of layers");
        for (int l = 0; l < model->count; l++)
            names[l] = model->layers[l].name;
        char hint[160];
        dl_names_hint(hint, sizeof hint, name, names, model->count);
        return dl_error_set(err, DL_ERR_NAME, "[pipeline] split: unknown layer '%s'%s", name, hint);
    }
    return DL_OK;
}

static dl_status cut(const dl_pipeline_options *options, const dl_costs *costs,
                     const dl_model_layers *model, const dl_split *split, int *first, dl_error *err)
{
    if (split->stages > model->count) {
        return dl_error_set_at(err, DL_ERR_RANGE, costs->path, 0,
                               "%d stages, but the model has %d layers (operations NAME.forward)",
                               split->stages, model->count);
    }
    if (split->stages > 1 && options->cut_count > 0) {
        if ((int)options->cut_count != split->stages - 1) {
            return dl_error_set(err, DL_ERR_RANGE,
                                "[pipeline] split names the first layers of %zu stages after the "
                                "first, but stages = %d",
                                options->cut_count, split->stages);
        }
        return cut_as_given(options, model, split->stages, first, err);
    }
    DL_AUTOFREE double *before =
        dl_calloc((size_t)model->count + 1, sizeof *before, "times of layers");
    for (int l = 0; l < model->count; l++) {
        const dl_model_layer *layer = &model->layers[l];
        before[l + 1] = before[l] + op_ns(costs, layer->forward, split->samples) +
                        op_ns(costs, layer->backward, split->samples);
    }
    cut_evenly(before, model->count, split->stages, first);
    return DL_OK;
}

dl_status dl_pipeline_cut(const dl_pipeline_options *options, const dl_costs *costs,
                          const dl_split *split, int *first, dl_error *err)
{
    DL_SCOPED(dl_model_layers) model;
    dl_model_layers_init(&model, costs);
    return cut(options, costs, &model, split, first, err);
}

/* --- stages ---------------------------------------------------------------------------------- */

/* Sum over layers [first, first + count) of the value at `offset`; NaN if one is unknown. */
static double sum_of(const dl_model_layers *model, int first, int count, size_t offset)
{
    double sum = 0;
    for (int l = first; l < first + count; l++) {
        const char *layer = (const char *)&model->layers[l];
        sum += dl_value_or_nan((const dl_value *)(const void *)(layer + offset));
    }
    return sum;
}

#define SUM_OF(model, first, count, member) \
    sum_of(model, first, count, offsetof(dl_model_layer, member))

static double share_of(double part, double all)
{
    return all > 0 ? part / all : part; /* 0 / 0 is 0; keeps NaN */
}

/* Time per step of updates that belong to no layer. */
static double common_update_ns(const dl_costs *costs, const dl_model_layers *model, double batch)
{
    double sum_ns = 0;
    int near = 0;
    for (size_t o = 0; o < costs->op_count; o++) {
        const char *name = costs->ops[o].name;
        const size_t length = layer_length(name, ".update");
        if (length == 0) continue;
        const int l = find_layer_near(model, near, name, length);
        if (l < 0) {
            sum_ns += op_ns(costs, (int)o, batch);
        } else {
            near = l + 1;
        }
    }
    return sum_ns;
}

static int count_ops(const dl_model_layers *model, int first, int count, bool forward)
{
    int ops = 0;
    for (int l = first; l < first + count; l++)
        ops += (forward ? model->layers[l].forward : model->layers[l].backward) >= 0;
    return ops;
}

static void add_times(const dl_costs *costs, const dl_model_layers *model, double batch, double of,
                      dl_stage *stage)
{
    for (int l = stage->first; l < stage->first + stage->count; l++) {
        const dl_model_layer *layer = &model->layers[l];
        stage->forward_ns += op_ns(costs, layer->forward, batch) / of;
        stage->backward_ns += op_ns(costs, layer->backward, batch) / of;
        stage->update_ns += op_ns(costs, layer->update, batch);
    }
    stage->forward_ns = fmax(0, stage->forward_ns);
    stage->backward_ns = fmax(0, stage->backward_ns);
}

static void even_out(dl_stage *stage, int stages)
{
    double forward_ns = 0, backward_ns = 0;
    for (int s = 0; s < stages; s++) {
        forward_ns += stage[s].forward_ns / stages;
        backward_ns += stage[s].backward_ns / stages;
    }
    for (int s = 0; s < stages; s++) {
        stage[s].forward_ns = forward_ns;
        stage[s].backward_ns = backward_ns;
    }
}

void dl_pipeline_stages(const dl_pipeline_options *options, const dl_costs *costs,
                        const dl_split *split, const int *first, dl_stage *stage)
{
    DL_SCOPED(dl_model_layers) model;
    dl_model_layers_init(&model, costs);
    const double parts = options->without_micro_batches ? split->micro_batches : 1;
    const double batch = split->samples * parts;
    const double all_parameters = SUM_OF(&model, 0, model.count, parameter_bytes);
    const double all_ops =
        count_ops(&model, 0, model.count, true) + count_ops(&model, 0, model.count, false);
    const double update_ns = common_update_ns(costs, &model, batch);
    const double state_bytes = costs->state_bytes >= 0 ? (double)costs->state_bytes : (double)NAN;
    for (int s = 0; s < split->stages; s++) {
        const int count = first[s + 1] - first[s];
        dl_stage *at = &stage[s];
        *at = (dl_stage){.first = first[s], .count = count};
        at->parameter_bytes = SUM_OF(&model, first[s], count, parameter_bytes);
        for (int l = first[s]; l < first[s + 1]; l++)
            at->expert_bytes += model.layers[l].expert_bytes;
        const double share = share_of(at->parameter_bytes, all_parameters);
        at->state_bytes = share * state_bytes;
        add_times(costs, &model, batch, parts, at);
        if (update_ns != 0) at->update_ns += share * update_ns;
        at->update_ns = fmax(0, at->update_ns);
        at->launch_forward = count_ops(&model, first[s], count, true) / (all_ops * parts);
        at->launch_backward = count_ops(&model, first[s], count, false) / (all_ops * parts);
        if (s == split->stages - 1 || options->without_activations) continue;
        at->crossing_bytes = dl_value_or_nan(&model.layers[first[s + 1] - 1].output_bytes);
    }
    if (options->without_imbalance) even_out(stage, split->stages);
}

/* --- unknown bytes, and origins -------------------------------------------------------------- */

static void list(char **names, const char *layer, const char *key)
{
    dl_extend(names, "%s[layer %s] %s", *names != NULL ? ", " : "", layer, key);
}

char *dl_pipeline_missing(const dl_pipeline_options *options, const dl_costs *costs,
                          const dl_split *split, const int *first, bool exchanges)
{
    char *names = NULL;
    DL_SCOPED(dl_model_layers) model;
    dl_model_layers_init(&model, costs);
    for (int s = 0; s < split->stages - 1 && !options->without_activations; s++) {
        const dl_model_layer *last = &model.layers[first[s + 1] - 1];
        if (!last->output_bytes.known) list(&names, last->name, "output_bytes_per_sample");
    }
    const bool shares = common_update_ns(costs, &model, split->samples) != 0;
    for (int l = 0; l < model.count && (exchanges || shares); l++) {
        if (model.layers[l].parameter_bytes.known) continue;
        list(&names, model.layers[l].name, "parameter_bytes");
    }
    return names;
}

dl_origin dl_pipeline_origin(const dl_costs *costs, dl_origin others)
{
    for (size_t l = 0; l < costs->layer_count; l++) {
        const dl_layer_cost *layer = &costs->layers[l];
        if (layer->output_bytes_per_sample.known &&
            layer->output_bytes_per_sample.origin < others) {
            others = layer->output_bytes_per_sample.origin;
        }
        if (layer->parameter_bytes.known && layer->parameter_bytes.origin < others) {
            others = layer->parameter_bytes.origin;
        }
    }
    return others;
}

/* --- schedules ------------------------------------------------------------------------------- */

bool dl_schedule_flushes(dl_schedule schedule)
{
    return schedule != DL_SCHEDULE_PIPEDREAM && schedule != DL_SCHEDULE_2BW;
}

int dl_pipeline_staleness(dl_schedule schedule, const dl_split *split, int stage)
{
    if (schedule == DL_SCHEDULE_PIPEDREAM) return split->stages - 1 - stage;
    return schedule == DL_SCHEDULE_2BW ? 1 : 0;
}

int dl_pipeline_versions(dl_schedule schedule, const dl_split *split, int stage)
{
    return dl_pipeline_staleness(schedule, split, stage) + 1;
}

bool dl_pipeline_is_forward(dl_schedule schedule, const dl_split *split, int stage, int pass)
{
    const int m = split->micro_batches * split->chunks;
    if (schedule == DL_SCHEDULE_GPIPE && split->stages > 1) return pass < m;
    int ahead = split->stages - stage - 1; /* number of forward passes before forward and backward
                                            * passes alternate */
    if (split->chunks > 1) ahead = 2 * ahead + (split->chunks - 1) * split->stages;
    if (ahead > m) ahead = m;
    if (pass < ahead) return true;
    return pass < 2 * m - ahead && (pass - ahead) % 2 == 0;
}

dl_pass_of dl_pipeline_find_pass(const dl_split *split, bool forward, int number)
{
    const int round = split->stages * split->chunks, within = number % round;
    const int chunk = within / split->stages;
    return (dl_pass_of){.chunk = forward ? chunk : split->chunks - 1 - chunk,
                        .micro_batch = number / round * split->stages + within % split->stages};
}
