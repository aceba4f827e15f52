#include "sim/island/island.h"

#include <math.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "sim/run_internal.h"
#include "sim/shares.h"

/* Bytes of the parameters of a GPU's own experts. */
static double expert_bytes(const dl_costs *costs)
{
    double sum = 0;
    for (size_t l = 0; l < costs->layer_count; l++)
        sum += costs->layers[l].expert_parameter_bytes.value;
    return sum;
}

static double frac_of(double part, double all)
{
    return part > 0 ? part / all : 0;
}

/* --- requirements of a point ----------------------------------------------------------------- */

static bool split_exchanges(const dl_point *point)
{
    return point->mode->needs & DL_NEED_PARAMETERS && point->workers > 1;
}

char *dl_run_split_missing(const dl_scenario *scenario, const dl_costs *costs,
                           const dl_point *point)
{
    int first[DL_PIECES_MAX + 1];
    const dl_split whole = dl_point_split(point), split = dl_split_of_pieces(&whole);
    if (split.stages == 1) return NULL;
    if (dl_pipeline_cut(&scenario->pipeline->options, costs, &split, first, NULL)) return NULL;
    return dl_pipeline_missing(&scenario->pipeline->options, costs, &split, first,
                               split_exchanges(point));
}

/* Adds a piece's times and bytes to its stage. */
static void add_piece(dl_stage *stage, const dl_stage *piece)
{
    if (stage->count == 0) stage->first = piece->first;
    stage->count += piece->count;
    stage->forward_ns += piece->forward_ns;
    stage->backward_ns += piece->backward_ns;
    stage->update_ns += piece->update_ns;
    stage->launch_forward += piece->launch_forward;
    stage->launch_backward += piece->launch_backward;
    stage->parameter_bytes += piece->parameter_bytes;
    stage->expert_bytes += piece->expert_bytes;
    stage->state_bytes += piece->state_bytes;
}

/* Cuts the model into pieces by the undrawn costs `undisturbed`, writes their first layers to
 * first[pieces + 1], and sets the times of pieces and stages by `costs`. */
static dl_status find_stages(const dl_scenario *scenario, const dl_costs *undisturbed,
                             const dl_costs *costs, const dl_point *point, int *first,
                             dl_stage *pieces, dl_stage *stages, dl_error *err)
{
    const dl_split split = dl_point_split(point), of_pieces = dl_split_of_pieces(&split);
    const dl_pipeline_options *options = &scenario->pipeline->options;
    dl_status status = dl_pipeline_cut(options, undisturbed, &of_pieces, first, err);
    if (status != DL_OK) return status;
    dl_pipeline_stages(options, costs, &of_pieces, first, pieces);
    for (int s = 0; s < split.stages; s++)
        stages[s] = (dl_stage){.count = 0};
    for (int p = 0; p < of_pieces.stages; p++)
        add_piece(&stages[p % split.stages], &pieces[p]);
    return DL_OK;
}

/* The exchange plan that determines a rank's part of the state: shards divide the parameters, and
 * with [exchange] sharded workers divide the optimizer state of a shard. GPUs that only divide
 * sequences or experts count as ranks, like workers. */
static dl_exchange_plan plan_of_state(const dl_gpu_options *options, const dl_split *split,
                                      int workers)
{
    const bool sharded = dl_split_is_sharded(split);
    const int ranks = sharded ? 1 : split->shards;
    dl_exchange_plan all = dl_exchange_plan_among(options, false, workers * ranks);
    if (!sharded) {
        dl_exchange_plan_by_node(&all, options, dl_split_gpus(split) / ranks);
        return all;
    }
    dl_exchange_plan plan = dl_exchange_plan_among(options, true, split->shards);
    plan.sharers *= all.sharers;
    return plan;
}

dl_status dl_run_ranks_open(dl_run_ranks *ranks, const dl_scenario *scenario, const dl_costs *costs,
                            const dl_point *point)
{
    const dl_split split = dl_point_split(point);
    dl_stage pieces[DL_PIECES_MAX];
    *ranks = (dl_run_ranks){.options = *scenario->gpu};
    if (split.stages > 1) ranks->options.own_buckets = false;
    dl_model_layers_init(&ranks->model, costs);
    ranks->all = (dl_memory_rank){
        .costs = costs,
        .model = &ranks->model,
        .options = &ranks->options,
        .plan = plan_of_state(scenario->gpu, &split, point->workers),
        .split = split,
        .parameter_bytes =
            costs->parameter_bytes < 0 ? (double)NAN : (double)costs->parameter_bytes,
        .state_bytes = costs->state_bytes < 0 ? (double)NAN : (double)costs->state_bytes,
    };
    ranks->all.expert_frac = frac_of(expert_bytes(costs), ranks->all.parameter_bytes);
    const dl_exchange_plan plan = dl_scenario_exchange(scenario, point);
    ranks->all.plan.late = plan.late;
    if (!dl_split_is_sharded(&split))
        ranks->all.plan.bucket_copies = point->workers > 1 ? plan.bucket_copies : 0;
    ranks->all.is_served = dl_mode_serves_gradients(point->mode) && !plan.is_collective;
    ranks->all.has_outer =
        dl_scenario_has_outer(scenario, point) && plan.is_collective && !scenario->gpu->on_hosts;
    if (split.stages == 1) return DL_OK;
    ranks->all.schedule = scenario->pipeline->schedule;
    ranks->all.first = ranks->first;
    return find_stages(scenario, costs, costs, point, ranks->first, pieces, ranks->stages, NULL);
}

void dl_run_ranks_close(dl_run_ranks *ranks)
{
    dl_model_layers_free(&ranks->model);
}

dl_memory_rank dl_run_rank(const dl_run_ranks *ranks, int stage)
{
    dl_memory_rank rank = ranks->all;
    rank.stage = stage;
    if (rank.split.stages == 1) return rank;
    rank.parameter_bytes = ranks->stages[stage].parameter_bytes;
    rank.state_bytes = ranks->stages[stage].state_bytes;
    rank.expert_frac =
        frac_of(ranks->stages[stage].expert_bytes, ranks->stages[stage].parameter_bytes);
    return rank;
}

/* Sets the bytes that the server, if there is one, keeps for all ranks. The costs give the
 * bytes for one of the GPUs that divide the layers or the experts. */
void dl_run_serve(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point,
                  dl_gpu_point *gpus)
{
    const dl_split split = dl_point_split(point);
    const double parts =
        split.tensor *
        dl_split_spread(&split, frac_of(expert_bytes(costs), (double)costs->parameter_bytes));
    const double weights = costs->half_weights ? (double)costs->parameter_bytes : 0;
    if (!(point->mode->needs & DL_NEED_PARAMETERS) || dl_scenario_is_collective(scenario, point))
        return;
    gpus->served_bytes = parts * (double)costs->parameter_bytes;
    gpus->more_vectors =
        dl_scenario_has_outer(scenario, point) ? 2 : 0; /* momentum, last average */
    if (dl_mode_serves_gradients(point->mode) && costs->state_bytes >= 0)
        gpus->state_bytes = parts * ((double)costs->state_bytes + weights);
}

/* Memory of the fullest GPU of the rank's stage. All have the same content, except for the server's
 * vectors. */
static dl_gpu_memory memory_of(const dl_scenario *scenario, const dl_point *point,
                               const dl_memory_rank *rank)
{
    const dl_split *split = &rank->split;
    const dl_gpu_content content = dl_memory_of_rank(rank, NULL);
    DL_AUTOFREE dl_gpu_content *own =
        dl_calloc((size_t)point->workers, sizeof *own, "needs of GPUs");
    for (int w = 0; w < point->workers; w++)
        own[w] = content;
    const dl_gpu_options options = dl_point_gpu_options(scenario, point);
    dl_gpu_point gpus = {.stride = dl_split_gpus(split), .workers = point->workers, .own = own};
    dl_run_serve(scenario, rank->costs, point, &gpus);
    const bool differ = gpus.served_bytes > 0 && options.where == DL_WHERE_GPU;
    dl_gpu_memory most = {.needs_bytes = (double)NAN, .has_bytes = (double)NAN};
    for (int n = 0; n < (differ ? split->shards * split->tensor : 1); n++) {
        const int of = dl_split_rank(split, rank->stage, n / split->tensor);
        gpus.first = dl_split_gpu(split, of, n % split->tensor);
        const dl_gpu_memory memory = dl_gpu_options_memory(&options, &gpus);
        dl_gpu_memory_most(&most, &memory);
    }
    return most;
}

dl_gpu_memory dl_run_split_memory(const dl_scenario *scenario, const dl_costs *costs,
                                  const dl_point *point, int first, int last)
{
    dl_run_ranks ranks;
    dl_gpu_memory most = {.needs_bytes = (double)NAN, .has_bytes = (double)NAN};
    const dl_status status = dl_run_ranks_open(&ranks, scenario, costs, point);
    for (int s = first; s <= last && status == DL_OK; s++) {
        const dl_memory_rank rank = dl_run_rank(&ranks, s);
        const dl_gpu_memory memory = memory_of(scenario, point, &rank);
        dl_gpu_memory_most(&most, &memory);
    }
    dl_run_ranks_close(&ranks);
    return most;
}

char *dl_run_split_text(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point)
{
    int first[DL_PIECES_MAX + 1];
    const dl_split whole = dl_point_split(point), split = dl_split_of_pieces(&whole);
    if (split.stages == 1) return NULL;
    if (dl_pipeline_cut(&scenario->pipeline->options, costs, &split, first, NULL)) return NULL;
    DL_SCOPED(dl_model_layers) model;
    dl_model_layers_init(&model, costs);
    char *text = dl_strdup("");
    for (int s = 0; s < point->stages; s++)
        dl_extend(&text, "%s%s", s > 0 ? ";" : "", model.layers[first[s]].name);
    return text;
}

/* --- running -------------------------------------------------------------------------------- */

struct dl_run_island {
    dl_stage stages[DL_STAGES_MAX], pieces[DL_PIECES_MAX];
    double held_share[DL_STAGES_MAX], message_ns[DL_STAGES_MAX];
    dl_buckets *buckets; /* [stages]; NULL: all gradients are ready together */
    int stage_count;
    dl_exchange_plan within;
    dl_island_tensor *tensors;
    dl_alike shards, experts;
    dl_workload workload;
    double *slow;
    double *alone_ns; /* [workers] step times alone, if intervals depend on speed */
    dl_noise_config noise;
};

static const dl_scenario_pipeline *pipeline_of(const dl_scenario *scenario)
{
    static const dl_scenario_pipeline undivided = {.schedule = DL_SCHEDULE_1F1B};
    return scenario->pipeline != NULL ? scenario->pipeline : &undivided;
}

/* The GPU model whose times the whole network uses: that of the first GPU. */
static int first_model(const dl_run_config *run)
{
    const dl_gpu_options options = dl_point_gpu_options(run->scenario, run->point);
    const dl_place place = dl_gpu_options_place(&options, 0);
    return dl_machine_model_number(&options.machine, place.node, place.index);
}

/* Multiplies slow[GPUs] by the ratio of the step time of each GPU's model to the step time that
 * the stages' costs give. */
static void slow_by_model(const dl_run_config *run, const dl_costs *costs, double *slow)
{
    const dl_scenario *scenario = run->scenario;
    const dl_point *point = run->point;
    const dl_gpu_options options = dl_point_gpu_options(scenario, point);
    const dl_split split = dl_point_split(point);
    const double samples = split.samples;
    const bool whole = split.stages == 1 && costs->model_count > 0;
    const int first = first_model(run);
    const double plain_ns = whole ? dl_costs_model_step_ns(costs, first, samples, "forward") +
                                        dl_costs_model_step_ns(costs, first, samples, "backward")
                                  : dl_costs_step_ns(costs, samples, "forward") +
                                        dl_costs_step_ns(costs, samples, "backward");
    for (int d = 0; d < point->workers * dl_point_ranks(point) && costs->model_count > 0; d++) {
        const dl_place place = dl_gpu_options_place(&options, d);
        const int model = dl_machine_model_number(&options.machine, place.node, place.index);
        slow[d] *= (dl_costs_model_step_ns(costs, model, samples, "forward") +
                    dl_costs_model_step_ns(costs, model, samples, "backward")) /
                   plain_ns * dl_run_compute_factor(run, model) / exp(run->compute_log);
    }
}

/* Sets the only stage to the work of a whole model, as for a worker of one GPU, or to its recorded
 * step. */
static void take_whole(const dl_run_config *run, const dl_costs *costs, dl_run_island *island)
{
    const dl_workload *w = &island->workload;
    const dl_exchange_plan between = dl_scenario_exchange(run->scenario, run->point);
    const int copies =
        island->within.sharers > 1 ? island->within.bucket_copies : between.bucket_copies;
    const double bucket_ns = w->bucket_ns / 2;
    const dl_recorded *recorded = run->scenario->recorded;
    if (recorded != NULL) {
        island->stages[0] = (dl_stage){.backward_ns = recorded->done_ns,
                                       .update_ns = recorded->update_ns,
                                       .parameter_bytes = fmax(0, (double)costs->parameter_bytes),
                                       .expert_bytes = expert_bytes(costs)};
        return;
    }
    island->stages[0] = (dl_stage){
        .forward_ns = fmax(0, w->compute_ns - w->backward_ns),
        .backward_ns = w->backward_ns + (copies > 0 ? bucket_ns : 0),
        .update_ns = w->update_ns + (copies > 1 ? bucket_ns : 0),
        .launch_forward = 0.5,
        .launch_backward = 0.5,
        .parameter_bytes = fmax(0, (double)costs->parameter_bytes),
        .expert_bytes = expert_bytes(costs),
    };
}

static dl_status take_stages(const dl_run_config *run, const dl_costs *costs, dl_run_island *island,
                             dl_error *err)
{
    const dl_scenario *scenario = run->scenario;
    const dl_split split = dl_point_split(run->point);
    const int sharers = plan_of_state(scenario->gpu, &split, run->point->workers).sharers;
    const double factor = exp(run->compute_log); /* slow_by_model reverts part of this factor */
    dl_status status = DL_OK;
    island->within = dl_exchange_plan_among(scenario->gpu, true, split.shards);
    if (split.stages == 1) {
        take_whole(run, costs, island);
    } else {
        int first[DL_PIECES_MAX + 1];
        status = find_stages(scenario, run->costs, costs, run->point, first, island->pieces,
                             island->stages, err);
    }
    double all = 0;
    for (int s = 0; s < split.stages && status == DL_OK; s++) {
        dl_stage *stage = &island->stages[s];
        const double own = sharers > 1 ? sharers / dl_stage_spread(&split, stage) : 1;
        stage->update_ns *= factor / dl_costs_update_parts(costs, split.samples, own);
        all += stage->parameter_bytes;
    }
    if (split.stages == 1) island->pieces[0] = island->stages[0];
    for (int p = 0; p < split.stages * split.chunks && status == DL_OK; p++) {
        island->pieces[p].forward_ns *= factor;
        island->pieces[p].backward_ns *= factor;
    }
    for (int s = 0; s < split.stages; s++)
        island->held_share[s] = all > 0 ? island->stages[s].parameter_bytes *
                                              dl_stage_spread(&split, &island->stages[s]) / all
                                        : 0;
    return status;
}

/* Bytes of experts among the last `bytes` of the parameters of a stage. */
static double experts_behind(const dl_run_island *island, const dl_split *split,
                             const dl_model_layers *model, int stage, double bytes)
{
    double sum = 0;
    for (int c = split->chunks - 1; c >= 0; c--) {
        const dl_stage *piece = &island->pieces[c * split->stages + stage];
        const int end = split->stages > 1 ? piece->first + piece->count : model->count;
        for (int l = end - 1; l >= piece->first && bytes > 0; l--) {
            const dl_model_layer *layer = &model->layers[l];
            const double all = layer->parameter_bytes.value, part = fmin(all, bytes);
            if (all > 0) sum += layer->expert_bytes * part / all;
            bytes -= part;
        }
    }
    return sum;
}

/* Sets how many bytes of each bucket belong to experts. Buckets contain the layers from the last to
 * the first. */
static void divide_buckets(const dl_run_config *run, dl_run_island *island)
{
    const dl_split split = dl_point_split(run->point);
    DL_SCOPED(dl_model_layers) model;
    dl_model_layers_init(&model, run->costs);
    for (int s = 0; s < split.stages; s++) {
        dl_buckets *b = &island->buckets[s];
        double end = 0, before = 0;
        if (!(island->stages[s].expert_bytes > 0) || split.experts == 1) continue;
        b->expert_bytes = dl_calloc((size_t)b->count, sizeof *b->expert_bytes, "buckets");
        for (int i = 0; i < b->count; i++) {
            end += b->bytes[i];
            const double sum = experts_behind(island, &split, &model, s, end);
            b->expert_bytes[i] = fmin(b->bytes[i], sum - before);
            before = sum;
        }
    }
}

/* Creates the buckets of gathered and reduced data; none if each stage exchanges all its gradients
 * together. A whole model's gradients are ready at the times of the costs. */
static dl_status take_buckets(const dl_run_config *run, dl_run_island *island, dl_error *err)
{
    const dl_split split = dl_point_split(run->point);
    dl_gpu_options options = *run->scenario->gpu;
    dl_workload workload = island->workload;
    dl_status status = DL_OK;
    const bool is_cut = island->within.as_ready && options.bucket_bytes > 0 && split.chunks == 1;
    if (split.shards == 1 && split.stages > 1 && !is_cut) return DL_OK;
    if (split.stages > 1) {
        options.own_buckets = false;
        workload.gradient_count = 0;
    }
    island->buckets = dl_calloc((size_t)split.stages, sizeof *island->buckets, "buckets");
    for (int s = 0; s < split.stages && status == DL_OK; s++)
        status = dl_buckets_init(&island->buckets[s], &options, &workload,
                                 island->stages[s].parameter_bytes, err);
    if (status == DL_OK) divide_buckets(run, island);
    return status;
}

static void take_workload(const dl_run_config *run, const dl_costs *costs, dl_run_island *island)
{
    const dl_split split = dl_point_split(run->point);
    const int each = run->scenario->gpu->dispatch == DL_DISPATCH_SINGLE
                         ? run->point->workers * dl_split_gpus(&split)
                         : 1;
    dl_workload *w = &island->workload;
    dl_workload_init(w, costs, split.samples);
    if (split.stages == 1 && costs->model_count > 0)
        dl_workload_set_model(w, costs, first_model(run), split.samples);
    if (split.stages == 1) w->serial_ns += each * split.micro_batches * w->dispatch_ns;
    w->per_worker_ns *= 1 + w->contention_frac * (each - 1);
    if (run->scenario->recorded != NULL) w->serial_ns = w->per_worker_ns = 0;
}

/* Sets the time to compress the exchanged data of a GPU of each stage, with the slowest GPU
 * memory. */
static void take_messages(const dl_run_config *run, const dl_gpus_config *exchange,
                          dl_run_island *island)
{
    const dl_gpu_options *options = exchange->options;
    const dl_split split = dl_point_split(run->point);
    double rate = INFINITY; /* bytes per ns */
    for (int g = 0; g < run->point->workers * dl_split_gpus(&split); g++) {
        const dl_place at = dl_gpu_options_place(options, g);
        const dl_gpu_model *model = dl_machine_model(&options->machine, at.node, at.index);
        rate = fmin(rate, model->memory_bytes_per_s.value / 1e9);
    }
    for (int s = 0; s < split.stages; s++) {
        const dl_stage *stage = &island->stages[s];
        const double bytes = stage->parameter_bytes * dl_stage_spread(&split, stage) / split.shards;
        island->message_ns[s] = dl_compress_gpu_bytes(&exchange->plan.message, bytes) / rate;
    }
}

static dl_islands_config config_of(const dl_run_config *run, const dl_costs *costs,
                                   const dl_gpus_config *exchange, dl_run_island *island)
{
    const dl_scenario *scenario = run->scenario;
    const dl_point *point = run->point;
    const dl_workload *w = &island->workload;
    const dl_split split = dl_point_split(point);
    const dl_scenario_pipeline *pipeline = pipeline_of(scenario);
    const dl_pipeline_options *options = &pipeline->options;
    const double batch = split.samples * split.micro_batches;
    const dl_exchange_plan *plan = &exchange->plan;
    const bool reduces = dl_mode_reduces_gradients(point->mode) && point->workers > 1;
    const bool pushes = dl_mode_sends_tensors(point->mode) && plan->as_ready;
    const bool tells = (reduces || pushes) && plan->late == 0 && !scenario->gpu->on_hosts;
    const bool by_bucket = tells && split.chunks == 1 && island->buckets != NULL && plan->as_ready;
    dl_islands_config config = {
        .shape = {.split = split,
                  .within = island->within,
                  .schedule = pipeline->schedule,
                  .stages = island->stages,
                  .pieces = island->pieces,
                  .buckets = island->buckets,
                  .tensors = island->tensors,
                  .exchanges_buckets = by_bucket,
                  .without_waits =
                      options->without_bubble || !dl_schedule_flushes(pipeline->schedule),
                  .free_crossing = options->without_activations,
                  .with_input = scenario->recorded == NULL && dl_costs_have_input(costs),
                  .tells_ready = tells,
                  .awaits_parameters =
                      dl_mode_sends_tensors(point->mode) &&
                      (plan->fetch == DL_FETCH_LAYERS || plan->fetch == DL_FETCH_NEXT_STEP),
                  .message_ns = island->message_ns,
                  .launch_ns = w->per_worker_ns + (split.stages > 1 ? w->dispatch_ns : 0),
                  .reads_batches =
                      scenario->gpu->reads == DL_READS_BATCH && scenario->recorded == NULL,
                  .single_thread =
                      scenario->gpu->dispatch == DL_DISPATCH_SINGLE && scenario->recorded == NULL,
                  .workers = point->workers,
                  .recorded = scenario->recorded},
        .gpus = *exchange,
        .held_share = island->held_share,
        .slow = island->slow,
        .noise = &island->noise,
        .batch = {.input_ns = fmax(0, dl_costs_step_ns(costs, batch, "input")),
                  .input_bytes = costs->input_bytes_per_sample.value * batch,
                  .input_copy_ns = costs->input_copy_ns.known ? costs->input_copy_ns.value : 0,
                  .stored_bytes = costs->stored_bytes_per_sample.value * batch},
        .exchanges = point->mode->needs & DL_NEED_PARAMETERS &&
                     (point->workers > 1 || !dl_scenario_is_collective(scenario, point)),
    };
    config.gpus.plan.as_ready = tells;
    const bool folds = scenario->noise == DL_NOISE_NONE && !run->is_whole;
    dl_island_find_alike(&config, folds);
    island->shards = config.shape.shards;
    island->experts = config.shape.experts;
    config.lone_worker =
        folds && tells && reduces && run->observer == NULL && dl_island_workers_are_alike(&config);
    config.lines = config.shape.shards.each > 1 && config.lone_worker && plan->is_collective
                       ? dl_island_lines_apart(&config)
                       : dl_split_lines(&split);
    return config;
}

dl_status dl_run_create_island(const dl_run_config *run, const dl_costs *costs,
                               const dl_gpus_config *exchange, dl_run_island **made,
                               dl_islands **islands, dl_error *err)
{
    const dl_scenario *scenario = run->scenario;
    const dl_point *point = run->point;
    const dl_split split = dl_point_split(point);
    dl_run_island *island = *made = dl_calloc(1, sizeof *island, "stages");
    island->stage_count = split.stages;
    take_workload(run, costs, island);
    dl_status status = take_stages(run, costs, island, err);
    if (status == DL_OK) status = take_buckets(run, island, err);
    if (status == DL_OK)
        status = dl_island_price_tensors(exchange->options, &island->workload, costs, &split,
                                         island->pieces, point->workers, &island->tensors, err);
    if (status != DL_OK) return status;
    island->workload.parameter_bytes = exchange->workload->parameter_bytes;
    island->workload.state_bytes = exchange->workload->state_bytes;
    island->slow = dl_run_slow_devices(scenario, exchange->options, costs, point);
    for (int d = 0; d < point->workers * dl_split_gpus(&split) && run->without_slow; d++)
        island->slow[d] = 1;
    slow_by_model(run, costs, island->slow);
    const double samples = split.stages > 1 ? split.samples : split.samples * split.micro_batches;
    const int gpus = split.stages > 1 ? dl_point_gpus(point) : 1;
    island->noise = (dl_noise_config){.kind = scenario->noise,
                                      .sigma = scenario->sigma,
                                      .set = dl_costs_noise(costs, samples, (size_t)gpus)};
    take_messages(run, exchange, island);
    dl_islands_config config = config_of(run, costs, exchange, island);
    config.gpus.workload = &island->workload;
    return dl_islands_create(islands, &config, err);
}

/* Times of a micro-batch in a stage, including the collectives of GPUs that divide layers: both
 * passes of all pieces, and each pass of the first piece. */
typedef struct least_passes {
    double all_ns, first_ns[2]; /* backward, forward */
} least_passes;

/* Computes these times of a stage. `slow`: factors of the worker's GPUs; NULL: 1. */
static least_passes passes_of(const dl_run_island *island, const dl_split *split, int stage,
                              const double *slow)
{
    least_passes of = {0};
    double slowest = slow != NULL ? 0 : 1;
    for (int g = 0; g < dl_split_gpus(split) && slow != NULL; g++)
        if (dl_split_stage(split, dl_split_rank_of(split, g)) == stage)
            slowest = fmax(slowest, slow[g]);
    for (int c = 0; c < split->chunks; c++) {
        const dl_stage *piece = &island->pieces[c * split->stages + stage];
        double ns[2] = {slowest * piece->backward_ns, slowest * piece->forward_ns};
        for (int way = 0; way < 2; way++) {
            if (island->tensors != NULL)
                ns[way] +=
                    island->tensors[2 * (dl_split_rank(split, stage, 0) * split->chunks + c) + way]
                        .ns;
            of.all_ns += ns[way];
            if (c == 0) of.first_ns[way] = ns[way];
        }
    }
    return of;
}

/* Lower bound of a worker's step time in ns, for GPUs with these factors, without exchange and
 * noise. */
static double least_step_ns(const dl_run_config *run, const dl_run_island *island,
                            const double *slow)
{
    const dl_split split = dl_point_split(run->point);
    const dl_scenario_pipeline *pipeline = pipeline_of(run->scenario);
    const bool flushes =
        dl_schedule_flushes(pipeline->schedule) && !pipeline->options.without_bubble;
    const double launch_ns =
        island->workload.per_worker_ns + (split.stages > 1 ? island->workload.dispatch_ns : 0);
    double there_ns = 0, back_ns = 0, least_ns = 0;
    for (int s = 0; s < split.stages; s++) {
        const dl_stage *stage = &island->stages[s];
        const least_passes passes = passes_of(island, &split, s, slow);
        const double launches_ns = launch_ns * (stage->launch_forward + stage->launch_backward);
        /* After the last pass: the update, or the way back to a previous stage and its update. */
        back_ns = fmax(stage->update_ns, flushes ? back_ns : 0);
        least_ns = fmax(least_ns, split.micro_batches * launches_ns);
        least_ns = fmax(least_ns, there_ns + split.micro_batches * passes.all_ns + back_ns);
        if (flushes) there_ns += passes.first_ns[1];
        back_ns += passes.first_ns[0];
    }
    return least_ns;
}

double dl_run_split_least_ns(const dl_run_config *run, bool with_tensors)
{
    const dl_split split = dl_point_split(run->point);
    dl_run_island *island = dl_calloc(1, sizeof *island, "stages");
    dl_gpu_options at;
    double least_ns = 0;
    dl_gpu_options_at_point(run->scenario->gpu, run->costs, run->point->workers, run->point->gpus,
                            run->point->workers * dl_point_ranks(run->point), &at);
    take_workload(run, run->costs, island);
    if (take_stages(run, run->costs, island, NULL) == DL_OK &&
        (!with_tensors ||
         dl_island_price_tensors(&at, &island->workload, run->costs, &split, island->pieces, 1,
                                 &island->tensors, NULL) == DL_OK))
        least_ns = least_step_ns(run, island, NULL);
    dl_gpu_options_free_at_point(&at);
    dl_run_free_island(island);
    return least_ns;
}

const double *dl_run_island_alone_ns(dl_run_island *island, const dl_run_config *run)
{
    const int gpus = dl_point_ranks(run->point);
    double *alone_ns = island->alone_ns =
        dl_calloc((size_t)run->point->workers, sizeof *alone_ns, "times of steps");
    for (int w = 0; w < run->point->workers; w++)
        alone_ns[w] = least_step_ns(run, island, &island->slow[w * gpus]);
    return alone_ns;
}

void dl_run_free_island(dl_run_island *island)
{
    if (island == NULL) return;
    for (int s = 0; s < island->stage_count && island->buckets != NULL; s++)
        dl_buckets_free(&island->buckets[s]);
    free(island->buckets);
    free(island->tensors);
    dl_alike_free(&island->shards);
    dl_alike_free(&island->experts);
    free(island->slow);
    free(island->alone_ns);
    free(island);
}

/* Counts communication and waiting among the GPUs of a worker as part of its local steps, not of
 * the exchange between workers. */
static void keep_within(const dl_team *team, const dl_islands_figures *figures,
                        dl_averaging_result *averaging)
{
    const double within = figures->moved_frac + figures->waited_frac;
    if (averaging == NULL || team->syncer != NULL) return;
    averaging->utilisation_frac += within;
    averaging->blocked_s -= within * averaging->outer_step_mean_s;
    if (!team->config.comm_threads)
        averaging->exchange_s -= figures->moved_frac * averaging->outer_step_mean_s;
}

void dl_run_measure_island(const dl_team *team, const dl_point *point, dl_run_result *result)
{
    dl_split_result *split = result->split = dl_calloc(1, sizeof *split, "figures of stages");
    dl_islands_figures figures = {.busy_frac = split->busy_frac};
    double steps = 0;
    for (int w = 0; w < point->workers; w++)
        steps += (double)team->workers[w].steps_done / point->workers;
    dl_islands_measure(team, &figures);
    keep_within(team, &figures, result->averaging);
    split->stages = dl_point_split(point).stages;
    split->bubble_frac = figures.bubble_frac;
    split->crossed_bytes = figures.crossed_bytes / steps;
    split->reduced_bytes = (figures.exchanged_bytes + figures.sharded_bytes) / steps;
}
