#include "sim/pipeline/pipeline.h"

#include <stdlib.h>

#include "common/alloc.h"
#include "common/units.h"

bool dl_pipeline_is_forward(dl_schedule schedule, const dl_split *split, int stage, int pass)
{
    const int m = split->micro_batches;
    if (schedule == DL_SCHEDULE_GPIPE) return pass < m;
    const int behind = split->stages - stage - 1;
    const int ahead = behind < m ? behind : m; /* forwards before the first backward */
    if (pass < ahead) return true;
    return pass < 2 * m - ahead && (pass - ahead) % 2 == 0;
}

int dl_pipeline_passes(const dl_pipeline *p)
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

void dl_pipeline_set_state(dl_pipeline *p, int gpu, dl_worker_state state)
{
    if (p->gpus[gpu].state == state) return;
    account(p, gpu, p->engine.now_ns);
    p->gpus[gpu].state = state;
}

/* --- passes ---------------------------------------------------------------------------------- */

static bool is_forward(const dl_pipeline *p, int gpu)
{
    return dl_pipeline_is_forward(p->config.schedule, &p->config.split, dl_pipeline_stage(p, gpu),
                                  p->gpus[gpu].pass);
}

static bool has_input(dl_pipeline *p, int gpu)
{
    dl_pipeline_gpu *g = &p->gpus[gpu];
    if (!p->config.with_input || dl_pipeline_stage(p, gpu) > 0 || g->has_batch) return true;
    g->has_batch = dl_input_take(&p->input, replica_of(p, gpu));
    return g->has_batch;
}

/* What the next pass needs of another stage is here. */
static bool has_arrived(const dl_pipeline *p, int gpu, bool forward)
{
    const dl_pipeline_gpu *g = &p->gpus[gpu];
    const dl_split *split = &p->config.split;
    const int stage = dl_pipeline_stage(p, gpu);
    if (p->config.without_waits) return true;
    const int64_t before = g->step * split->micro_batches;
    if (forward) return stage == 0 || g->got_forwards > before + g->forwards;
    return stage == split->stages - 1 || g->got_backwards > before + g->backwards;
}

static void show_pass(const dl_pipeline *p, int gpu, bool forward, int micro_batch)
{
    const dl_team_observer *observer = p->config.observer;
    const dl_pipeline_gpu *g = &p->gpus[gpu];
    if (observer == NULL || observer->pass == NULL) return;
    observer->pass(observer->user, gpu, forward, micro_batch, g->state_start_ns, g->work_end_ns);
}

static void on_pass_done(void *user, int gpu)
{
    dl_pipeline *p = user;
    dl_pipeline_gpu *g = &p->gpus[gpu];
    const bool forward = is_forward(p, gpu);
    show_pass(p, gpu, forward, forward ? g->forwards : g->backwards);
    account(p, gpu, g->work_end_ns);
    g->state = DL_STATE_DISPATCH; /* until its issue's end: now */
    g->works = false;
    *(forward ? &g->forwards : &g->backwards) += 1;
    g->pass++;
    dl_pipeline_send(p, gpu, forward);
    if (g->pass == dl_pipeline_passes(p)) {
        dl_pipeline_reduce(p, gpu);
    } else {
        dl_pipeline_try(p, gpu);
    }
}

static void start_pass(dl_pipeline *p, int gpu, bool forward)
{
    dl_pipeline_gpu *g = &p->gpus[gpu];
    const dl_stage *stage = &p->config.stages[dl_pipeline_stage(p, gpu)];
    const double slow = p->config.slow != NULL ? p->config.slow[gpu] : 1;
    const double work_ns = slow * g->factor * (forward ? stage->forward_ns : stage->backward_ns);
    const int64_t now_ns = p->engine.now_ns, issued_ns = dl_pipeline_issue_end_ns(p, gpu);
    account(p, gpu, now_ns);
    g->state = DL_STATE_COMPUTE;
    g->works = true;
    g->work_end_ns = now_ns + dl_ns_ceil(work_ns);
    const int64_t end_ns = g->work_end_ns > issued_ns ? g->work_end_ns : issued_ns;
    dl_engine_after(&p->engine, end_ns - now_ns, on_pass_done, p, gpu);
}

static void on_issue_begun(void *user, int gpu)
{
    dl_pipeline *p = user;
    p->gpus[gpu].works = false;
    start_pass(p, gpu, is_forward(p, gpu));
}

void dl_pipeline_try(dl_pipeline *p, int gpu)
{
    dl_pipeline_gpu *g = &p->gpus[gpu];
    if (g->works || g->step == p->config.steps || g->pass == dl_pipeline_passes(p)) return;
    const bool forward = is_forward(p, gpu);
    const int64_t begin_ns = dl_pipeline_issue_begin_ns(p, gpu);
    if (!has_arrived(p, gpu, forward)) {
        const bool sent = dl_pipeline_is_sent(p, gpu, forward);
        dl_pipeline_set_state(p, gpu, sent ? DL_STATE_PULL : DL_STATE_WAIT);
    } else if (!has_input(p, gpu)) {
        dl_pipeline_set_state(p, gpu, DL_STATE_INPUT);
    } else if (begin_ns < 0) {
        dl_pipeline_set_state(p, gpu, DL_STATE_DISPATCH);
    } else if (begin_ns > p->engine.now_ns) {
        dl_pipeline_set_state(p, gpu, DL_STATE_DISPATCH);
        g->works = true;
        dl_engine_after(&p->engine, begin_ns - p->engine.now_ns, on_issue_begun, p, gpu);
    } else {
        start_pass(p, gpu, forward);
    }
}

/* --- steps ----------------------------------------------------------------------------------- */

static void begin_step(dl_pipeline *p, int gpu)
{
    dl_pipeline_gpu *g = &p->gpus[gpu];
    g->pass = g->forwards = g->backwards = 0;
    g->has_batch = false;
    g->step_start_ns = p->engine.now_ns;
    if (g->step < p->config.steps) g->factor = dl_noise_next(&g->noise);
}

static void end_step(dl_pipeline *p, int gpu)
{
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
    dl_pipeline_set_state(p, gpu, DL_STATE_WAIT);
    begin_step(p, gpu);
    dl_pipeline_issue(p, gpu);
    dl_pipeline_try(p, gpu);
}

static void on_updated(void *user, int gpu)
{
    end_step(user, gpu);
}

void dl_pipeline_update(dl_pipeline *p, int gpu)
{
    const dl_stage *stage = &p->config.stages[dl_pipeline_stage(p, gpu)];
    dl_pipeline_set_state(p, gpu, DL_STATE_UPDATE);
    dl_engine_after(&p->engine, dl_ns_ceil(stage->update_ns * p->gpus[gpu].factor), on_updated, p,
                    gpu);
}

/* --- setting up and running ------------------------------------------------------------------ */

static void on_input(void *user, int replica)
{
    dl_pipeline *p = user;
    dl_pipeline_try(p, replica * p->config.split.stages);
}

static void init_input(dl_pipeline *p)
{
    const dl_pipeline_config *config = &p->config;
    if (!config->with_input) return;
    dl_input_init(&p->input, &(dl_input_config){
                                 .engine = &p->engine,
                                 .network = &p->network,
                                 .links = &config->options->links,
                                 .places = p->first_places,
                                 .workers = config->replicas,
                                 .cores = config->options->input_cores,
                                 .prefetch = config->options->prefetch,
                                 .varies = config->options->input_varies,
                                 .seed = config->seed,
                                 .replicate = config->replicate,
                                 .make_ns = config->workload->input_ns,
                                 .bytes = config->input_bytes,
                                 .came = on_input,
                                 .user = p,
                             });
}

static void init_gpus(dl_pipeline *p)
{
    const dl_pipeline_config *config = &p->config;
    for (int g = 0; g < p->gpu_count; g++) {
        p->gpus[g].state = DL_STATE_WAIT;
        p->places[g] = dl_gpu_options_place(config->options, g);
        if (dl_pipeline_stage(p, g) == 0) p->first_places[replica_of(p, g)] = p->places[g];
        dl_noise_init(&p->gpus[g].noise, config->noise, config->seed, config->replicate,
                      (uint32_t)g);
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
    dl_status status = dl_pipeline_exchange_init(p, err);
    if (status != DL_OK) {
        dl_pipeline_free(p);
        return status;
    }
    dl_pipeline_issuers_init(p);
    /* Each GPU's own event, batches in the making, two of each flow and one of their shares, two of
     * each collective. */
    dl_engine_init(&p->engine, gpus + dl_input_most(&p->input) + 2 * p->network.flow_room + 1 +
                                   2 * config->split.stages);
    return DL_OK;
}

void dl_pipeline_free(dl_pipeline *p)
{
    for (int g = 0; g < p->gpu_count; g++)
        dl_noise_free(&p->gpus[g].noise);
    for (int t = 0; t < p->issuer_count; t++)
        free(p->issuers[t].start_ns);
    for (int s = 0; p->reductions != NULL && s < p->config.split.stages; s++)
        dl_collective_free(&p->reductions[s].collective);
    dl_input_free(&p->input);
    dl_network_free(&p->network);
    dl_engine_free(&p->engine);
    free(p->gpus);
    free(p->places);
    free(p->first_places);
    free(p->issuers);
    free(p->issue_ns);
    free(p->reductions);
    free(p->step_end_ns);
    *p = (dl_pipeline){0};
}

void dl_pipeline_run(dl_pipeline *p)
{
    for (int g = 0; g < p->gpu_count; g++)
        begin_step(p, g);
    if (p->config.with_input) dl_input_start(&p->input, p->config.steps);
    for (int t = 0; t < p->issuer_count; t++)
        dl_pipeline_issue(p, p->issuers[t].first);
    for (int g = 0; g < p->gpu_count; g++)
        dl_pipeline_try(p, g);
    dl_engine_run(&p->engine);
    if (p->engine.too_long) return;
    for (int g = 0; g < p->gpu_count; g++) {
        DL_ASSERT(p->gpus[g].step == p->config.steps, "GPU %d stopped in step %lld", g,
                  (long long)p->gpus[g].step);
        account(p, g, p->step_end_ns[(replica_of(p, g) + 1) * p->config.steps - 1]);
    }
}
