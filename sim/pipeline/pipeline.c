#include "sim/pipeline/pipeline.h"

#include <math.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/units.h"

static void try_pass(dl_pipeline *p, int gpu);
static void update(dl_pipeline *p, int gpu);

/* Whether pass `pass` of a step is a forward one. */
static bool is_forward_pass(dl_schedule schedule, const dl_split *split, int stage, int pass)
{
    const int m = split->micro_batches;
    if (schedule == DL_SCHEDULE_GPIPE) return pass < m;
    const int after = split->stages - stage - 1;
    const int ahead = after < m ? after : m; /* forwards before the first backward */
    if (pass < ahead) return true;
    return pass < 2 * m - ahead && (pass - ahead) % 2 == 0;
}

static int pass_count(const dl_pipeline *p)
{
    return 2 * p->config.split.micro_batches;
}

int dl_pipeline_stage(const dl_pipeline *p, int gpu)
{
    return gpu % p->config.split.stages;
}

static int replica_of(const dl_pipeline *p, int gpu)
{
    return gpu / p->config.split.stages;
}

/* --- states ---------------------------------------------------------------------------------- */

static void account(dl_pipeline *p, int gpu, int64_t end_ns)
{
    dl_pipeline_gpu *g = &p->gpus[gpu];
    const dl_team_observer *observer = p->config.observer;
    const int64_t start_ns = g->state_start_ns;
    g->state_ns[g->state] += end_ns - start_ns;
    g->state_start_ns = end_ns;
    if (observer != NULL && observer->state != NULL && end_ns > start_ns) {
        observer->state(observer->user, gpu, g->state, start_ns, end_ns);
    }
}

static void set_state(dl_pipeline *p, int gpu, dl_worker_state state)
{
    if (p->gpus[gpu].state == state) return;
    account(p, gpu, p->engine.now_ns);
    p->gpus[gpu].state = state;
}

/* --- launches ------------------------------------------------------------------------------- */

/* Host threads launch the passes. When a step's launch has started, the times of all of its passes
 * follow: they cost no events. */

static double pass_ns(const dl_pipeline *p, int gpu, int pass)
{
    const dl_pipeline_config *config = &p->config;
    const int number = dl_pipeline_stage(p, gpu);
    const dl_stage *stage = &config->stages[number];
    const double all_ns = config->workload->per_worker_ns + config->workload->dispatch_ns;
    return all_ns * (is_forward_pass(config->schedule, &config->split, number, pass)
                         ? stage->launch_forward
                         : stage->launch_backward);
}

static int64_t *launch_of(const dl_pipeline *p, int gpu)
{
    return p->launch_ns + (size_t)gpu * (size_t)pass_count(p);
}

/* A thread of several GPUs takes them in turn, a pass each. */
static void init_host(dl_pipeline *p, dl_pipeline_host *t, int first, int count)
{
    const int passes = pass_count(p);
    *t = (dl_pipeline_host){.first = first, .count = count};
    t->start_ns = dl_calloc((size_t)p->config.steps, sizeof *t->start_ns, "launched steps");
    double at_ns = p->config.workload->serial_ns;
    for (int pass = 0; pass < passes; pass++) {
        for (int g = first; g < first + count; g++) {
            launch_of(p, g)[pass] = dl_ns_ceil(at_ns);
            at_ns += pass_ns(p, g, pass);
        }
    }
    t->step_ns = dl_ns_ceil(at_ns);
}

static void init_hosts(dl_pipeline *p)
{
    const bool single = p->config.options->dispatch == DL_DISPATCH_SINGLE;
    const size_t passes = (size_t)pass_count(p);
    p->host_count = single ? 1 : p->gpu_count;
    p->hosts = dl_calloc((size_t)p->host_count, sizeof *p->hosts, "host threads");
    p->launch_ns =
        dl_calloc((size_t)p->gpu_count * passes, sizeof *p->launch_ns, "launched passes");
    for (int t = 0; t < p->host_count; t++)
        init_host(p, &p->hosts[t], t, single ? p->gpu_count : 1);
}

static dl_pipeline_host *host_of(const dl_pipeline *p, int gpu)
{
    return &p->hosts[p->host_count > 1 ? gpu : 0];
}

/* A step is launched when all of the thread's GPUs have ended the one `ahead` + 1 before. */
static void launch_steps(dl_pipeline *p, int gpu)
{
    dl_pipeline_host *t = host_of(p, gpu);
    int64_t ended = p->config.steps;
    for (int g = t->first; g < t->first + t->count; g++) {
        if (p->gpus[g].step < ended) ended = p->gpus[g].step;
    }
    const int64_t before = t->started;
    while (t->started < p->config.steps && t->started <= ended + p->config.options->ahead) {
        const int64_t now_ns = p->engine.now_ns;
        const int64_t start_ns = t->free_ns > now_ns ? t->free_ns : now_ns;
        t->start_ns[t->started++] = start_ns;
        t->free_ns = start_ns + t->step_ns;
    }
    for (int g = t->first; t->started > before && g < t->first + t->count; g++)
        try_pass(p, g);
}

static int64_t launch_start_ns(const dl_pipeline *p, int gpu)
{
    const dl_pipeline_host *t = host_of(p, gpu);
    const dl_pipeline_gpu *g = &p->gpus[gpu];
    return g->step < t->started ? t->start_ns[g->step] + launch_of(p, gpu)[g->pass] : -1;
}

static double bytes_of_cut(const dl_pipeline *p, int stage)
{
    return p->config.stages[stage].crossing_bytes * p->config.split.samples;
}

/* --- crossings between stages --------------------------------------------------------------- */

static void start_crossing(dl_pipeline *p, int gpu, bool forward);

static void arrive(dl_pipeline *p, int gpu, bool forward)
{
    dl_crossing *crossing = &p->gpus[gpu].crossing[forward];
    const int to = forward ? gpu + 1 : gpu - 1;
    p->crossed_bytes += bytes_of_cut(p, dl_pipeline_stage(p, forward ? gpu : to));
    crossing->queued--;
    crossing->busy = false;
    p->gpus[to].arrived[forward]++;
    if (crossing->queued > 0) start_crossing(p, gpu, forward);
    try_pass(p, to);
}

static void on_forward_arrived(void *user, int gpu)
{
    arrive(user, gpu, true);
}

static void on_backward_arrived(void *user, int gpu)
{
    arrive(user, gpu, false);
}

static void start_crossing(dl_pipeline *p, int gpu, bool forward)
{
    dl_crossing *crossing = &p->gpus[gpu].crossing[forward];
    const int stage = dl_pipeline_stage(p, gpu);
    crossing->busy = true;
    if (p->config.free_crossing) {
        arrive(p, gpu, forward);
        return;
    }
    dl_network_start(&p->network, crossing->class, bytes_of_cut(p, forward ? stage : stage - 1),
                     crossing->latency_ns, forward ? on_forward_arrived : on_backward_arrived, p,
                     gpu);
}

static void send(dl_pipeline *p, int gpu, bool forward)
{
    if (dl_pipeline_stage(p, gpu) == (forward ? p->config.split.stages - 1 : 0)) return;
    dl_crossing *crossing = &p->gpus[gpu].crossing[forward];
    crossing->queued++;
    if (!crossing->busy) start_crossing(p, gpu, forward);
    try_pass(p, forward ? gpu + 1 : gpu - 1); /* which now waits for the crossing */
}

static void init_crossing(dl_pipeline *p, dl_crossing *crossing, int from, int to)
{
    dl_route route;
    dl_links_route_collective(&p->config.options->links, p->places[from], p->places[to], false,
                              &route);
    crossing->class = dl_network_route_class(&p->network, &route);
    crossing->latency_ns = dl_ns_ceil(route.latency_ns);
}

/* --- all-reduce ------------------------------------------------------------------------------ */

static void on_reduced(void *user, int stage)
{
    dl_pipeline *p = user;
    p->reduced_bytes += p->reductions[stage].sent_bytes;
    p->reductions[stage].arrived = 0;
    for (int g = stage; g < p->gpu_count; g += p->config.split.stages)
        update(p, g);
}

static void reduce(dl_pipeline *p, int gpu)
{
    if (p->reductions == NULL) {
        update(p, gpu);
        return;
    }
    const int stage = dl_pipeline_stage(p, gpu);
    dl_stage_reduction *reduction = &p->reductions[stage];
    set_state(p, gpu, DL_STATE_BARRIER);
    if (++reduction->arrived == p->config.replicas) {
        for (int g = stage; g < p->gpu_count; g += p->config.split.stages)
            set_state(p, g, DL_STATE_ALLREDUCE);
    }
    dl_collective_arrive(&reduction->collective);
}

/* `held`: transfers of the stages before it. */
static dl_status init_reduction(dl_pipeline *p, int stage, int held, dl_place *ranks, dl_error *err)
{
    const dl_gpu_options *options = p->config.options;
    dl_stage_reduction *reduction = &p->reductions[stage];
    for (int r = 0; r < p->config.replicas; r++)
        ranks[r] = p->places[r * p->config.split.stages + stage];
    const dl_collective_config config = {
        .kind = DL_ALLREDUCE,
        .algorithm = options->algorithm,
        .fidelity = options->fidelity,
        .ranks = ranks,
        .rank_count = p->config.replicas,
        .bytes = p->config.stages[stage].parameter_bytes,
        .chunk_bytes = DL_CHUNK_BYTES,
        .message_ns = options->message_ns,
        .measured = p->config.workload->collectives,
        .measured_count = p->config.workload->collective_count,
        .transfers_max = DL_TRANSFERS_HELD_MAX - held,
    };
    dl_status status =
        dl_collective_init(&reduction->collective, &p->network, &options->links, &config, err);
    if (status != DL_OK) return status;
    dl_collective_on_done(&reduction->collective, on_reduced, p, stage);
    /* What was measured as a whole does not say what it sends. */
    const bool known = !reduction->collective.measured;
    reduction->sent_bytes = known ? dl_collective_sent_bytes(&reduction->collective) : (double)NAN;
    return DL_OK;
}

static dl_status init_exchange(dl_pipeline *p, dl_error *err)
{
    const int stages = p->config.split.stages;
    int flows = dl_input_most(&p->input) + 2 * p->gpu_count;
    for (int g = 0; g < p->gpu_count; g++) {
        const int stage = dl_pipeline_stage(p, g);
        if (stage < stages - 1) init_crossing(p, &p->gpus[g].crossing[true], g, g + 1);
        if (stage > 0) init_crossing(p, &p->gpus[g].crossing[false], g, g - 1);
    }
    dl_status status = DL_OK;
    if (p->config.reduces && p->config.replicas > 1) {
        dl_place *ranks = dl_calloc((size_t)p->config.replicas, sizeof *ranks, "replicas");
        p->reductions = dl_calloc((size_t)stages, sizeof *p->reductions, "all-reduces");
        int held = 0;
        double transfers = 0;
        for (int s = 0; s < stages && status == DL_OK; s++) {
            status = init_reduction(p, s, held, ranks, err);
            const dl_collective *collective = &p->reductions[s].collective;
            held += collective->plan.transfer_count;
            if (!collective->measured) transfers += collective->plan.transfer_count;
        }
        flows += held;
        free(ranks);
        if (status == DL_OK) {
            status = dl_collective_check_run(p->config.options->fidelity, transfers,
                                             (double)p->config.steps, err);
        }
    }
    dl_network_reserve(&p->network, flows);
    return status;
}

/* --- passes ---------------------------------------------------------------------------------- */

static bool is_forward(const dl_pipeline *p, int gpu)
{
    return is_forward_pass(p->config.schedule, &p->config.split, dl_pipeline_stage(p, gpu),
                           p->gpus[gpu].pass);
}

static bool has_input(dl_pipeline *p, int gpu)
{
    dl_pipeline_gpu *g = &p->gpus[gpu];
    if (!p->config.with_input || dl_pipeline_stage(p, gpu) > 0 || g->has_batch) return true;
    g->has_batch = dl_input_take(&p->input, replica_of(p, gpu), g->step);
    return g->has_batch;
}

/* What the next pass needs of another stage is here. */
static bool has_arrived(const dl_pipeline *p, int gpu, bool forward)
{
    const dl_pipeline_gpu *g = &p->gpus[gpu];
    const dl_split *split = &p->config.split;
    const int stage = dl_pipeline_stage(p, gpu);
    if (p->config.without_waits) return true;
    if (stage == (forward ? 0 : split->stages - 1)) return true;
    return g->arrived[forward] > g->step * split->micro_batches + g->done[forward];
}

static void on_pass_done(void *user, int gpu)
{
    dl_pipeline *p = user;
    dl_pipeline_gpu *g = &p->gpus[gpu];
    const bool forward = is_forward(p, gpu);
    const dl_team_observer *observer = p->config.observer;
    if (observer != NULL && observer->pass != NULL) {
        observer->pass(observer->user, gpu, forward, g->done[forward], g->state_start_ns,
                       g->work_end_ns);
    }
    account(p, gpu, g->work_end_ns);
    g->state = DL_STATE_DISPATCH; /* until its launch's end: now */
    g->works = false;
    g->done[forward]++;
    g->pass++;
    send(p, gpu, forward);
    if (g->pass == pass_count(p)) {
        reduce(p, gpu);
    } else {
        try_pass(p, gpu);
    }
}

static void start_pass(dl_pipeline *p, int gpu, bool forward)
{
    dl_pipeline_gpu *g = &p->gpus[gpu];
    const dl_stage *stage = &p->config.stages[dl_pipeline_stage(p, gpu)];
    const double slow = p->config.slow != NULL ? p->config.slow[gpu] : 1;
    const double work_ns = slow * g->factor * (forward ? stage->forward_ns : stage->backward_ns);
    const int64_t now_ns = p->engine.now_ns,
                  launched_ns = launch_start_ns(p, gpu) + dl_ns_ceil(pass_ns(p, gpu, g->pass));
    account(p, gpu, now_ns);
    g->state = DL_STATE_COMPUTE;
    g->works = true;
    g->work_end_ns = now_ns + dl_ns_ceil(work_ns);
    const int64_t end_ns = g->work_end_ns > launched_ns ? g->work_end_ns : launched_ns;
    dl_engine_after(&p->engine, end_ns - now_ns, on_pass_done, p, gpu);
}

static void on_launch_started(void *user, int gpu)
{
    dl_pipeline *p = user;
    p->gpus[gpu].works = false;
    start_pass(p, gpu, is_forward(p, gpu));
}

static void try_pass(dl_pipeline *p, int gpu)
{
    dl_pipeline_gpu *g = &p->gpus[gpu];
    if (g->works || g->step == p->config.steps || g->pass == pass_count(p)) return;
    const bool forward = is_forward(p, gpu);
    const int64_t start_pass_ns = launch_start_ns(p, gpu);
    if (!has_arrived(p, gpu, forward)) {
        const dl_pipeline_gpu *from = forward ? g - 1 : g + 1;
        set_state(p, gpu, from->crossing[forward].queued > 0 ? DL_STATE_PULL : DL_STATE_WAIT);
    } else if (!has_input(p, gpu)) {
        set_state(p, gpu, DL_STATE_INPUT);
    } else if (start_pass_ns < 0) {
        set_state(p, gpu, DL_STATE_DISPATCH);
    } else if (start_pass_ns > p->engine.now_ns) {
        set_state(p, gpu, DL_STATE_DISPATCH);
        g->works = true;
        dl_engine_after(&p->engine, start_pass_ns - p->engine.now_ns, on_launch_started, p, gpu);
    } else {
        start_pass(p, gpu, forward);
    }
}

/* --- steps ----------------------------------------------------------------------------------- */

static void start_step(dl_pipeline *p, int gpu)
{
    dl_pipeline_gpu *g = &p->gpus[gpu];
    g->pass = g->done[0] = g->done[1] = 0;
    g->has_batch = false;
    g->step_start_ns = p->engine.now_ns;
    if (g->step < p->config.steps) g->factor = dl_noise_next(&p->noise, &g->noise);
}

static void end_step(void *user, int gpu)
{
    dl_pipeline *p = user;
    dl_pipeline_gpu *g = &p->gpus[gpu];
    const int64_t now_ns = p->engine.now_ns;
    const dl_team_observer *observer = p->config.observer;
    int64_t *last = &p->step_end_ns[replica_of(p, gpu) * p->config.steps + g->step];
    if (now_ns > *last) *last = now_ns;
    if (observer != NULL && observer->step != NULL) {
        observer->step(observer->user, gpu, g->step, g->step_start_ns, now_ns, DL_NO_STALENESS_YET);
    }
    g->step++;
    /* Until the replica's other stages have ended too, this one has nothing to do. */
    set_state(p, gpu, DL_STATE_WAIT);
    start_step(p, gpu);
    launch_steps(p, gpu);
    try_pass(p, gpu);
}

static void update(dl_pipeline *p, int gpu)
{
    const dl_stage *stage = &p->config.stages[dl_pipeline_stage(p, gpu)];
    set_state(p, gpu, DL_STATE_UPDATE);
    dl_engine_after(&p->engine, dl_ns_ceil(stage->update_ns * p->gpus[gpu].factor), end_step, p,
                    gpu);
}

/* --- setting up and running ------------------------------------------------------------------ */

static void on_input(void *user, int replica)
{
    dl_pipeline *p = user;
    try_pass(p, replica * p->config.split.stages);
}

static void init_input(dl_pipeline *p)
{
    const dl_pipeline_config *config = &p->config;
    if (!config->with_input) return;
    const dl_gpu_step step = {.input_ns = config->workload->input_ns,
                              .input_bytes = config->input_bytes};
    dl_input_init(&p->input, &(dl_input_config){
                                 .engine = &p->engine,
                                 .network = &p->network,
                                 .options = config->options,
                                 .places = p->first_places,
                                 .workers = config->replicas,
                                 .seed = config->seed,
                                 .replicate = config->replicate,
                                 .steps = {.of = &step},
                                 .came = on_input,
                                 .user = p,
                             });
}

static void init_gpus(dl_pipeline *p)
{
    const dl_pipeline_config *config = &p->config;
    dl_noise_source_init(&p->noise, config->noise, config->seed, config->replicate);
    for (int g = 0; g < p->gpu_count; g++) {
        p->gpus[g].state = DL_STATE_WAIT;
        p->places[g] = dl_gpu_options_place(config->options, g);
        if (dl_pipeline_stage(p, g) == 0) p->first_places[replica_of(p, g)] = p->places[g];
        dl_noise_init(&p->gpus[g].noise, &p->noise, (uint32_t)g);
    }
}

dl_status dl_pipeline_init(dl_pipeline *p, const dl_pipeline_config *config, dl_error *err)
{
    const int gpus = config->replicas * config->split.stages;
    *p = (dl_pipeline){
        .config = *config,
        .gpu_count = gpus,
        .gpus = dl_calloc((size_t)gpus, sizeof *p->gpus, "GPUs"),
        .places = dl_calloc((size_t)gpus, sizeof *p->places, "GPUs"),
        .first_places = dl_calloc((size_t)config->replicas, sizeof *p->places, "GPUs"),
        .step_end_ns =
            dl_calloc((size_t)(config->replicas * config->steps), sizeof(int64_t), "step times"),
    };
    dl_network_init(&p->network, &p->engine, 1);
    p->network.is_uncontended = config->options->without_contention;
    dl_network_add_links(&p->network, &config->options->links);
    init_gpus(p);
    init_input(p);
    dl_status status = init_exchange(p, err);
    if (status != DL_OK) {
        dl_pipeline_free(p);
        return status;
    }
    init_hosts(p);
    /* Each GPU's own event, batches in the making, two of each flow and one of their shares, two of
     * each collective. */
    dl_engine_init(&p->engine, gpus + dl_input_most(&p->input) + 2 * p->network.flow_room + 1 +
                                   2 * config->split.stages);
    return DL_OK;
}

void dl_pipeline_free(dl_pipeline *p)
{
    for (int t = 0; t < p->host_count; t++)
        free(p->hosts[t].start_ns);
    for (int s = 0; p->reductions != NULL && s < p->config.split.stages; s++)
        dl_collective_free(&p->reductions[s].collective);
    dl_input_free(&p->input);
    dl_network_free(&p->network);
    dl_engine_free(&p->engine);
    free(p->gpus);
    free(p->places);
    free(p->first_places);
    free(p->hosts);
    free(p->launch_ns);
    free(p->reductions);
    free(p->step_end_ns);
    *p = (dl_pipeline){0};
}

void dl_pipeline_run(dl_pipeline *p)
{
    for (int g = 0; g < p->gpu_count; g++)
        start_step(p, g);
    if (p->config.with_input) dl_input_start(&p->input, p->config.steps);
    for (int t = 0; t < p->host_count; t++)
        launch_steps(p, p->hosts[t].first);
    for (int g = 0; g < p->gpu_count; g++)
        try_pass(p, g);
    dl_engine_run(&p->engine);
    if (p->engine.too_long || p->engine.stopped) return;
    for (int g = 0; g < p->gpu_count; g++) {
        DL_ASSERT(p->gpus[g].step == p->config.steps, "GPU %d stopped in step %lld", g,
                  (long long)p->gpus[g].step);
        account(p, g, p->step_end_ns[(replica_of(p, g) + 1) * p->config.steps - 1]);
    }
}
