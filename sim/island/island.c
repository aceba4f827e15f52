/* The platform of workers of several GPUs: runs their programs, and has their ranks exchange. */
#include "sim/island/island.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/units.h"
#include "sim/platform/gpu_input.h"

/* From a rank to the one of a stage before or after it. */
typedef struct way {
    int class;
    int64_t latency_ns;
    double bytes;
    int domain; /* that the bytes leave; -1: they stay */
} way;

typedef struct collective {
    dl_collective of;
    double moved_bytes;
    int64_t arrived_ns; /* at which the last rank did */
    uint32_t *joined;   /* [shards] tasks */
    int joined_count;
} collective;

typedef struct island {
    dl_program_run run;
    way *ways;                        /* [ranks x 2]: back, forward */
    collective *collectives;          /* [collective_count of its program] */
    dl_noise *noise;                  /* [ranks] */
    double *factor;                   /* [ranks] of this step's noise */
    int64_t *free_ns;                 /* [ranks] end of what it has computed last */
    int weight;                       /* ranks that one with tasks stands for */
    int64_t spent_ns[DL_SPENT_COUNT]; /* of this step so far, all ranks together */
    int64_t bubble_ns;
    bool works; /* at a step */
    bool waits; /* for the rest of a step that was cut to drain */
} island;

/* Steps of a host thread whose launch has started: when. */
typedef struct launches {
    int64_t *start_ns; /* [room] of the step modulo room */
    int room, started;
} launches;

/* Of an agent, on all planes. */
typedef struct exchange_at_hand {
    int left;                    /* planes that it has not ended on */
    int64_t since_ns, waited_ns; /* by all ranks that had exchanged before, up to since_ns */
} exchange_at_hand;

struct dl_islands {
    dl_islands_config config;
    dl_team *team;
    dl_network network;
    dl_island_program *programs; /* [program_count] of all workers, or of each */
    int program_count, ranks, workers;
    island *islands;  /* [workers] */
    dl_gpus **planes; /* [ranks] the GPUs that are rank r of a worker, for their exchange */
    int **plane_gpus; /* [ranks][workers] */
    dl_workload *plane_workloads;
    dl_gpu_options *plane_options;
    dl_place *places;  /* [workers x ranks] */
    dl_place *loading; /* [workers x shards] those that take batches */
    bool *wants;       /* [workers x shards] they wait for one */
    dl_input input;
    dl_gpu_step batch;
    dl_dispatch dispatch;
    launches *launches; /* [thread_count] */
    double *launch_ns;  /* [thread_count] of a step */
    int64_t *ended;     /* [thread_count] steps that all workers of the thread have ended */
    dl_noise_source noise;
    exchange_at_hand *exchanging; /* [agents] */
    double slowdown;              /* of computing beside the worker's own collectives, >= 1 */
    double crossed_bytes, sharded_bytes;
    double *sent_bytes;          /* [domains] by crossings and shards */
    int64_t bubble_ns, *busy_ns; /* [stages] since the warm-up */
};

static dl_islands *islands_of(const dl_team *team)
{
    return team->machine;
}

static const dl_island_program *program_of(const dl_islands *is, int worker)
{
    return &is->programs[is->program_count > 1 ? worker : 0];
}

static const dl_split *split_of(const dl_islands *is)
{
    return &is->config.shape.split;
}

static int gpu_of(const dl_islands *is, int worker, int rank)
{
    return worker * is->ranks + rank;
}

/* Whether the rank does something itself, and none does it for it. */
static bool has_tasks(const dl_islands *is, int rank)
{
    return !is->config.shape.folded || dl_split_shard(split_of(is), rank) == 0;
}

/* Ranks that come to a collective of a stage. */
static int joiners(const dl_islands *is)
{
    return is->config.shape.folded ? 1 : split_of(is)->shards;
}

static int thread_of(const dl_islands *is, int worker, int rank)
{
    return is->config.shape.single_thread ? 0 : gpu_of(is, worker, rank);
}

/* --- accounting ------------------------------------------------------------------------------- */

/* A step's time of a rank is divided as it passes; at the step's end the team, for which all of it is
 * computing, is told. */

static void spend(island *i, dl_spent spent, int64_t ns)
{
    i->spent_ns[spent] += ns * i->weight;
}

static void idle(island *i, int64_t ns)
{
    spend(i, DL_SPENT_WAITING, ns);
    i->bubble_ns += ns * i->weight;
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* From since_ns to until_ns a rank waited for `from`: since that was on its way; before that for another
 * rank. */
static void account_wait_for(dl_islands *is, int worker, uint32_t from, int64_t since_ns,
                             int64_t until_ns)
{
    island *i = &is->islands[worker];
    const dl_island_program *program = program_of(is, worker);
    switch (program->program.tasks[from].kind) {
    case DL_ISLAND_INPUT: spend(i, DL_SPENT_INPUT, until_ns - since_ns); return;
    case DL_ISLAND_GATHER:
    case DL_ISLAND_SCATTER: spend(i, DL_SPENT_COPIES, until_ns - since_ns); return;
    case DL_ISLAND_CROSSING: {
        const int64_t sent_ns = later(since_ns, i->run.tasks[program->pass[from]].end_ns);
        idle(i, sent_ns - since_ns);
        spend(i, DL_SPENT_COPIES, until_ns - sent_ns);
        return;
    }
    default: idle(i, until_ns - since_ns);
    }
}

/* Before `task` started its rank waited from since_ns on: for what the task needs, then for its
 * launch. The first one of a step may have had what it needs before its launch started. */
static void account_wait(dl_islands *is, int worker, uint32_t task, int64_t since_ns)
{
    island *i = &is->islands[worker];
    const dl_island_program *program = program_of(is, worker);
    const dl_task_state *state = &i->run.tasks[task];
    int64_t ready_ns = later(since_ns, state->ready_ns);
    uint32_t from = state->edge;
    if (from != DL_TASK_NONE) {
        from = program->program.edges[from].from;
    } else if (program->program.lanes[program->program.tasks[task].lane].first == task) {
        from = program->needed[program->rank[task]];
        ready_ns = from != DL_TASK_NONE ? later(since_ns, i->run.tasks[from].end_ns) : since_ns;
    }
    if (from != DL_TASK_NONE) account_wait_for(is, worker, from, since_ns, ready_ns);
    spend(i, DL_SPENT_DISPATCH, state->start_ns - (from != DL_TASK_NONE ? ready_ns : since_ns));
}

static bool is_measured(const dl_islands *is, int worker)
{
    return is->team->config.warmup == 0 || is->team->workers[worker].measured_since_ns > 0;
}

static void account(dl_islands *is, int worker, uint32_t task)
{
    island *i = &is->islands[worker];
    const dl_island_program *program = program_of(is, worker);
    const int rank = program->rank[task];
    const dl_task_state *state = &i->run.tasks[task];
    const dl_lane_state *lane = &i->run.lanes[program->program.tasks[task].lane];
    const int64_t worked_ns = lane->worked_ns;
    int64_t busy_ns = worked_ns - state->start_ns;
    account_wait(is, worker, task, i->free_ns[rank]);
    /* What collectives inside a node take of it counts as theirs. */
    if (is->slowdown > is->config.gpus.workload->overlap_slowdown) {
        const int64_t full_ns = dl_ns_ceil(program->program.tasks[task].work_ns * lane->factor);
        if (busy_ns > full_ns) {
            spend(i, DL_SPENT_COPIES, busy_ns - full_ns);
            busy_ns = full_ns;
        }
    }
    spend(i, DL_SPENT_COMPUTE, busy_ns);
    spend(i, DL_SPENT_DISPATCH, state->end_ns - worked_ns);
    if (is_measured(is, worker))
        is->busy_ns[dl_split_stage(split_of(is), rank)] += busy_ns * i->weight;
    i->free_ns[rank] = state->end_ns;
}

/* Moves of what the team holds for computing what the ranks, together, did else. */
static void tell_team(dl_islands *is, int worker, int64_t end_ns)
{
    island *i = &is->islands[worker];
    int64_t *spent_ns = is->team->workers[worker].spent_ns;
    for (int r = 0; r < is->ranks; r++)
        if (has_tasks(is, r)) idle(i, end_ns - i->free_ns[r]);
    for (int s = 0; s < DL_SPENT_COUNT; s++) {
        if (s == DL_SPENT_COMPUTE) continue;
        const int64_t ns = i->spent_ns[s] / is->ranks;
        spent_ns[s] += ns;
        spent_ns[DL_SPENT_COMPUTE] -= ns;
    }
    if (is_measured(is, worker)) is->bubble_ns += i->bubble_ns;
}

/* --- steps ------------------------------------------------------------------------------------ */

static void begin_rank(dl_islands *is, int worker, int rank)
{
    const launches *l = &is->launches[thread_of(is, worker, rank)];
    const int64_t step = is->team->workers[worker].steps_done;
    if (step < l->started)
        dl_program_begin_lane(&is->islands[worker].run, dl_island_lane(rank, DL_ISLAND_COMPUTES),
                              l->start_ns[step % l->room]);
}

static void begin_step(dl_islands *is, int worker)
{
    island *i = &is->islands[worker];
    const bool with_update = is->team->workers[worker].updates_at_once;
    memset(i->spent_ns, 0, sizeof i->spent_ns);
    i->bubble_ns = 0;
    i->waits = false;
    i->works = true;
    dl_program_start(&i->run);
    for (int r = 0; r < is->ranks; r++) {
        dl_lane_state *lanes = &i->run.lanes[dl_island_lane(r, 0)];
        const double *slow = is->config.slow;
        i->factor[r] = dl_noise_next(&is->noise, &i->noise[r]);
        i->free_ns[r] = is->team->engine.now_ns;
        lanes[DL_ISLAND_COMPUTES].factor =
            (slow != NULL ? slow[gpu_of(is, worker, r)] : 1) * i->factor[r];
        lanes[DL_ISLAND_UPDATES].factor = with_update ? i->factor[r] : 0;
    }
    for (int r = 0; r < is->ranks; r++) {
        for (int lane = DL_ISLAND_UPDATES; lane < DL_ISLAND_LANES; lane++)
            dl_program_begin_lane(&i->run, dl_island_lane(r, lane), is->team->engine.now_ns);
        begin_rank(is, worker, r);
    }
}

static void compute(dl_team *team, int worker)
{
    dl_islands *is = islands_of(team);
    island *i = &is->islands[worker];
    if (dl_program_is_idle(&i->run)) {
        begin_step(is, worker);
    } else {
        i->waits = true;
    }
}

static void on_done(void *user, int worker)
{
    dl_team_done(user, worker);
}

/* Gathers and reductions that not all ranks have come to are given up; what moves ends by itself. */
static void cut(dl_team *team, int worker)
{
    dl_islands *is = islands_of(team);
    island *i = &is->islands[worker];
    if (i->waits) {
        i->waits = false;
    } else {
        i->works = false;
        dl_program_cut(&i->run);
        for (int c = 0; c < program_of(is, worker)->collective_count; c++) {
            collective *of = &i->collectives[c];
            if (of->joined_count == joiners(is)) continue;
            while (of->joined_count > 0)
                dl_program_end(&i->run, of->joined[--of->joined_count]);
        }
    }
    dl_engine_after(&team->engine, 0, on_done, team, worker);
}

static void step_is_over(void *user, int worker)
{
    dl_islands *is = user;
    island *i = &is->islands[worker];
    if (i->run.is_cut) {
        if (i->waits) begin_step(is, worker);
        return;
    }
    i->works = false;
    tell_team(is, worker, is->team->engine.now_ns);
    dl_team_done(is->team, worker);
}

static void on_updated(void *user, int worker)
{
    dl_islands *is = user;
    dl_team_done(is->team, worker);
}

/* Each rank what it holds; the worker goes on with the last of them. */
static void update(dl_team *team, int worker)
{
    dl_islands *is = islands_of(team);
    const dl_split *split = split_of(is);
    double most_ns = 0, sum_ns = 0;
    for (int r = 0; r < is->ranks; r++) {
        const int stage = dl_split_stage(split, r);
        const double ns = is->config.shape.stages[stage].update_ns * is->islands[worker].factor[r];
        if (is_measured(is, worker)) is->busy_ns[stage] += dl_ns_ceil(ns);
        most_ns = fmax(most_ns, ns);
        sum_ns += ns;
    }
    const int64_t waited_ns = (int64_t)(most_ns - sum_ns / is->ranks);
    int64_t *spent_ns = team->workers[worker].spent_ns;
    spent_ns[DL_SPENT_UPDATE] -= waited_ns;
    spent_ns[DL_SPENT_WAITING] += waited_ns;
    if (is_measured(is, worker)) is->bubble_ns += waited_ns * is->ranks;
    dl_engine_after(&team->engine, dl_ns_ceil(most_ns), on_updated, is, worker);
}

/* --- what tasks do besides computing ----------------------------------------------------------- */

static void task_has_ended(void *user, int worker, uint32_t task)
{
    dl_islands *is = user;
    const dl_island_program *program = program_of(is, worker);
    const dl_task *of = &program->program.tasks[task];
    const dl_team_observer *observer = is->team->config.observer;
    if (of->kind > DL_ISLAND_UPDATE) return;
    account(is, worker, task);
    if (of->kind == DL_ISLAND_UPDATE || observer == NULL || observer->pass == NULL) return;
    const island *i = &is->islands[worker];
    observer->pass(observer->user, gpu_of(is, worker, program->rank[task]),
                   of->kind == DL_ISLAND_FORWARD, program->pass[task], i->run.tasks[task].start_ns,
                   i->run.lanes[of->lane].worked_ns);
}

static void note_sent(dl_islands *is, const dl_collective *of)
{
    const int domains = dl_machine_domains(&is->config.gpus.options->machine);
    for (int d = 0; d < domains && of->plan.sent_bytes != NULL; d++)
        is->sent_bytes[d] += of->plan.sent_bytes[d];
}

static void on_crossed(void *user, int task)
{
    dl_program_run *run = user;
    dl_islands *is = run->user;
    const way *w = &is->islands[run->index].ways[run->program->tasks[task].slot];
    is->crossed_bytes += w->bytes;
    if (w->domain >= 0) is->sent_bytes[w->domain] += w->bytes;
    dl_program_end(run, (uint32_t)task);
}

/* The GPUs of a stage compute more slowly while they gather or reduce. */
static void set_speed(dl_islands *is, int worker, int stage, double speed)
{
    const dl_split *split = split_of(is);
    for (int f = 0; f < split->shards && is->slowdown > 1; f++)
        dl_program_set_speed(&is->islands[worker].run,
                             dl_island_lane(dl_split_rank(split, stage, f), DL_ISLAND_COMPUTES),
                             speed);
}

static void on_collective_done(void *user, int number)
{
    island *i = user;
    dl_islands *is = i->run.user;
    const int worker = i->run.index;
    collective *c = &i->collectives[number];
    const dl_island_collective *of = &program_of(is, worker)->collectives[number];
    const dl_team_observer *observer = is->team->config.observer;
    is->sharded_bytes += c->moved_bytes;
    note_sent(is, &c->of);
    set_speed(is, worker, of->stage, 1);
    if (observer != NULL && observer->collective != NULL && worker == 0 && of->stage == 0) {
        observer->collective(observer->user, dl_collective_kind_names[c->of.config.kind],
                             of->bucket, c->of.config.bytes, c->arrived_ns,
                             is->team->engine.now_ns);
    }
    const int joined = c->joined_count;
    c->joined_count = 0;
    for (int j = 0; j < joined; j++)
        dl_program_end(&i->run, c->joined[j]);
}

static void join_collective(dl_islands *is, int worker, int number, uint32_t task)
{
    const int shards = split_of(is)->shards;
    collective *c = &is->islands[worker].collectives[number];
    c->joined[c->joined_count++] = task;
    if (c->joined_count < joiners(is)) return;
    c->arrived_ns = is->team->engine.now_ns;
    set_speed(is, worker, program_of(is, worker)->collectives[number].stage, 1 / is->slowdown);
    for (int f = 0; f < shards; f++)
        dl_collective_arrive(&c->of);
}

/* The rank has the gradients of one of its buckets, or of all (-1). */
static void is_ready(dl_islands *is, int worker, int rank, int bucket)
{
    if (is->config.shape.folded) {
        for (int f = 1; f < split_of(is)->shards && dl_split_shard(split_of(is), rank) == 0; f++)
            is_ready(is, worker, dl_split_rank(split_of(is), dl_split_stage(split_of(is), rank), f),
                     bucket);
    }
    dl_gpus *plane = is->planes[rank];
    const int exchanged = dl_gpus_buckets(plane);
    const int at = bucket < 0 ? 0 : bucket;
    const int count =
        bucket < 0 ? 1 : is->config.shape.buckets[dl_split_stage(split_of(is), rank)].count;
    for (int b = at * exchanged / count; b < (at + 1) * exchanged / count; b++)
        dl_gpus_bucket_ready(plane, worker, b);
}

static int loader_of(const dl_islands *is, int worker, int rank)
{
    return worker * split_of(is)->shards + dl_split_shard(split_of(is), rank);
}

static void take_batch(dl_islands *is, int worker, int rank)
{
    island *i = &is->islands[worker];
    const uint32_t task = i->run.program->lanes[dl_island_lane(rank, DL_ISLAND_LOADS)].first;
    const int64_t step = is->team->workers[worker].steps_done;
    const int loader = loader_of(is, worker, rank);
    is->wants[loader] = !dl_input_take(&is->input, loader, step);
    if (!is->wants[loader]) dl_program_end(&i->run, task);
}

static void on_input(void *user, int loader)
{
    dl_islands *is = user;
    const dl_split *split = split_of(is);
    const int worker = loader / split->shards;
    const int rank = dl_split_rank(split, 0, loader % split->shards);
    if (is->wants[loader]) take_batch(is, worker, rank);
}

static void start_task(void *user, int worker, uint32_t task)
{
    dl_islands *is = user;
    island *i = &is->islands[worker];
    const dl_island_program *program = program_of(is, worker);
    const dl_task *of = &program->program.tasks[task];
    switch (of->kind) {
    case DL_ISLAND_INPUT: take_batch(is, worker, program->rank[task]); return;
    case DL_ISLAND_CROSSING: {
        const way *w = &i->ways[of->slot];
        dl_network_start(&is->network, w->class, w->bytes, w->latency_ns, on_crossed, &i->run,
                         (int)task);
        return;
    }
    case DL_ISLAND_GATHER:
    case DL_ISLAND_SCATTER: join_collective(is, worker, of->slot, task); return;
    default: break;
    }
    is_ready(is, worker, program->rank[task], of->slot);
    dl_program_end(&i->run, task);
}

static const dl_program_owner owner = {start_task, task_has_ended, step_is_over};

/* --- launches --------------------------------------------------------------------------------- */

/* A thread's launch of a step has started or ended. */
static void on_launch(void *user, int thread)
{
    dl_islands *is = user;
    launches *l = &is->launches[thread];
    const int started = is->dispatch.launches[thread].started;
    if (started == l->started) return;
    l->start_ns[l->started++ % l->room] = is->team->engine.now_ns;
    const int first = is->config.shape.single_thread ? 0 : thread;
    const int end = is->config.shape.single_thread ? is->workers * is->ranks : thread + 1;
    for (int g = first; g < end; g++) {
        const int worker = g / is->ranks;
        if (is->islands[worker].works && is->team->workers[worker].steps_done == started - 1)
            begin_rank(is, worker, g % is->ranks);
    }
}

static void init_dispatch(dl_islands *is)
{
    const dl_islands_config *config = &is->config;
    const dl_gpu_options *options = config->gpus.options;
    const dl_workload *workload = config->gpus.workload;
    const bool single = config->shape.single_thread;
    const int threads = single ? 1 : is->workers * is->ranks;
    is->launch_ns = dl_calloc((size_t)threads, sizeof *is->launch_ns, "launches");
    const int64_t steps = is->team->config.steps;
    const int room = (int)(options->ahead < steps ? options->ahead : steps) + 3;
    is->launches = dl_calloc((size_t)threads, sizeof *is->launches, "launches");
    is->ended = dl_calloc((size_t)threads, sizeof *is->ended, "launches");
    for (int t = 0; t < threads; t++) {
        is->launches[t].room = room;
        is->launches[t].start_ns =
            dl_calloc((size_t)room, sizeof *is->launches->start_ns, "launches");
        is->launch_ns[t] =
            single ? is->programs[0].thread_ns : is->programs[0].rank_ns[t % is->ranks];
    }
    const dl_dispatch_config dispatch = {
        .engine = &is->team->engine,
        .kind = DL_DISPATCH_PER_GPU,
        .workers = threads,
        .ahead = options->ahead,
        .steps = is->team->config.steps,
        .serial_ns = workload->serial_ns,
        .own_launch_ns = is->launch_ns,
        .progress = on_launch,
        .tells_all = true,
        .user = is,
    };
    dl_dispatch_init(&is->dispatch, &dispatch);
}

/* The one thread of all goes on when the last of them has ended the step. */
static void step_ended(dl_team *team, int worker)
{
    dl_islands *is = islands_of(team);
    const bool single = is->config.shape.single_thread;
    int64_t ended = team->workers[worker].steps_done;
    for (int w = 0; w < is->workers && single; w++)
        if (team->workers[w].steps_done < ended) ended = team->workers[w].steps_done;
    for (int r = 0; r < (single ? 1 : is->ranks); r++) {
        const int thread = thread_of(is, worker, r);
        for (; is->ended[thread] < ended; is->ended[thread]++)
            dl_dispatch_step_ended(&is->dispatch, thread);
    }
}

/* --- exchange between workers ------------------------------------------------------------------ */

/* Ranks that have exchanged before the last one of their worker wait for it. */
static void has_exchanged(void *user, int agent)
{
    dl_islands *is = user;
    const int64_t now_ns = is->team->engine.now_ns;
    exchange_at_hand *at = &is->exchanging[agent];
    if (at->left < is->ranks) at->waited_ns += (now_ns - at->since_ns) * (is->ranks - at->left);
    at->since_ns = now_ns;
    if (--at->left > 0) return;
    dl_worker *w = &is->team->workers[agent];
    const int64_t waited_ns = at->waited_ns / is->ranks;
    w->spent_ns[dl_spent_of((dl_worker_state)w->state)] -= waited_ns;
    w->spent_ns[DL_SPENT_WAITING] += waited_ns;
    if (agent < is->workers && is_measured(is, agent)) is->bubble_ns += waited_ns * is->ranks;
    dl_team_done(is->team, agent);
}

static void exchange(dl_team *team, int agent, dl_exchange exchange)
{
    dl_islands *is = islands_of(team);
    is->exchanging[agent] = (exchange_at_hand){.left = is->ranks};
    for (int r = 0; r < is->ranks; r++)
        dl_gpus_exchange(is->planes[r], agent, exchange);
}

static void members_changed(dl_team *team, int worker)
{
    dl_islands *is = islands_of(team);
    for (int r = 0; r < is->ranks; r++)
        dl_gpus_members_changed(is->planes[r], worker);
}

static int domain(const dl_team *team, int worker)
{
    return dl_gpus_domain(islands_of(team)->planes[0], worker);
}

/* --- setting up -------------------------------------------------------------------------------- */

/* Vectors of a rank: what its stage has, over its shards. */
static void make_plane(dl_islands *is, int rank)
{
    const dl_islands_config *config = &is->config;
    const dl_split *split = &config->shape.split;
    const double share = config->held_share[dl_split_stage(split, rank)] / split->shards;
    dl_workload *workload = &is->plane_workloads[rank];
    dl_gpu_options *options = &is->plane_options[rank];
    int *gpus = is->plane_gpus[rank] = dl_calloc((size_t)is->workers, sizeof *gpus, "GPUs");
    const dl_gpu_options *all = config->gpus.options;
    const int count = dl_gpu_options_count(all);
    *workload = *config->gpus.workload;
    workload->parameter_bytes *= share;
    workload->state_bytes *= share;
    workload->gradients = NULL;
    workload->gradient_count = 0;
    for (int w = 0; w < is->workers; w++) {
        const int gpu = gpu_of(is, w, rank) % count;
        gpus[w] = all->gpus != NULL ? all->gpus[gpu] : gpu;
    }
    *options = *all;
    options->gpus = gpus;
    options->gpu_count = is->workers;
    options->own_buckets = false;
    options->bucket_bytes =
        config->overlaps ? (int64_t)ceil((double)all->bucket_bytes / split->shards) : 0;
    if (rank > 0) options->machine.fabric.traffic_count = 0; /* of others, once */
}

static dl_status init_planes(dl_islands *is, dl_error *err)
{
    const size_t ranks = (size_t)is->ranks;
    dl_status status = DL_OK;
    /* Gradients that shards have reduced go on as the type in which they were. */
    const dl_gpu_options *all = is->config.gpus.options;
    const bool halves = is->config.overlaps && all->sharded == DL_SHARDED_NONE;
    const double sent = halves ? dl_dtype_frac(all->reduce_dtype) : 1;
    is->planes = dl_calloc(ranks, sizeof(dl_gpus *), "GPUs");
    is->plane_gpus = dl_calloc(ranks, sizeof(int *), "GPUs");
    is->plane_workloads = dl_calloc(ranks, sizeof *is->plane_workloads, "GPUs");
    is->plane_options = dl_calloc(ranks, sizeof *is->plane_options, "GPUs");
    for (int r = 0; r < is->ranks && status == DL_OK; r++) {
        make_plane(is, r);
        const double share =
            is->config.held_share[dl_split_stage(split_of(is), r)] / split_of(is)->shards;
        dl_gpus_config config = is->config.gpus;
        config.options = &is->plane_options[r];
        config.workload = &is->plane_workloads[r];
        config.content_bytes *= share * sent;
        config.inside_bytes *= share;
        config.with_input = false;
        config.network = &is->network;
        config.exchanged = has_exchanged;
        config.user = is;
        status = dl_gpus_create(&is->planes[r], &config, err);
    }
    return status;
}

static void init_ways(dl_islands *is, int worker)
{
    const dl_island_shape *shape = &is->config.shape;
    const dl_split *split = &shape->split;
    island *i = &is->islands[worker];
    const dl_machine *m = &is->config.gpus.options->machine;
    i->ways = dl_calloc(2 * (size_t)is->ranks, sizeof *i->ways, "crossings");
    for (int n = 0; n < 2 * is->ranks; n++) {
        const int rank = n / 2, stage = dl_split_stage(split, rank);
        const int to_stage = n % 2 == 1 ? stage + 1 : stage - 1;
        if (to_stage < 0 || to_stage >= split->stages) continue;
        const int to = dl_split_rank(split, to_stage, dl_split_shard(split, rank));
        const dl_place a = is->places[gpu_of(is, worker, rank)],
                       b = is->places[gpu_of(is, worker, to)];
        const int domain = dl_machine_domain(m, a.node);
        dl_route route;
        dl_links_route_collective(&is->config.gpus.options->links, a, b, false, &route);
        i->ways[n] = (way){
            .class = dl_network_route_class(&is->network, &route),
            .latency_ns = dl_ns_ceil(route.latency_ns),
            .bytes =
                shape->stages[to_stage > stage ? stage : to_stage].crossing_bytes * split->samples,
            .domain = domain != dl_machine_domain(m, b.node) ? domain : -1,
        };
    }
}

/* `held`: transfers of all of them so far. */
static dl_status init_collective(dl_islands *is, int worker, int number, int *held, dl_error *err)
{
    const dl_gpu_options *options = is->config.gpus.options;
    const dl_split *split = split_of(is);
    const dl_island_collective *of = &program_of(is, worker)->collectives[number];
    collective *c = &is->islands[worker].collectives[number];
    const dl_workload *workload = is->config.gpus.workload;
    const size_t shards = (size_t)split->shards;
    c->joined = dl_calloc(shards, sizeof *c->joined, "shards");
    dl_place *ranks = dl_calloc(shards, sizeof *ranks, "shards");
    for (int f = 0; f < split->shards; f++)
        ranks[f] = is->places[gpu_of(is, worker, dl_split_rank(split, of->stage, f))];
    const dl_dtype dtype = of->gathers ? options->param_dtype : options->reduce_dtype;
    const bool any = strcmp(options->algorithm, "auto") == 0;
    const dl_collective_config config = {
        .kind = of->gathers ? DL_ALLGATHER : DL_REDUCE_SCATTER,
        .algorithm = any ? options->algorithm : "ring",
        .fidelity = options->fidelity,
        .ranks = ranks,
        .rank_count = split->shards,
        .bytes = dl_dtype_frac(dtype) * is->config.shape.buckets[of->stage].bytes[of->bucket],
        .chunk_bytes = DL_CHUNK_BYTES,
        .message_ns = options->message_ns,
        .measured = workload->collectives,
        .measured_count = workload->collective_count,
        .transfers_max = DL_TRANSFERS_HELD_MAX - *held,
    };
    dl_status status = dl_collective_init(&c->of, &is->network, &options->links, &config, err);
    free(ranks);
    if (status != DL_OK) return status;
    *held += c->of.plan.transfer_count;
    c->moved_bytes = dl_collective_sent_bytes(&c->of);
    dl_collective_on_done(&c->of, on_collective_done, &is->islands[worker], number);
    return DL_OK;
}

static dl_status init_island(dl_islands *is, int worker, int *held, dl_error *err)
{
    island *i = &is->islands[worker];
    const dl_island_program *program = program_of(is, worker);
    const size_t ranks = (size_t)is->ranks;
    i->noise = dl_calloc(ranks, sizeof *i->noise, "ranks");
    i->factor = dl_calloc(ranks, sizeof *i->factor, "ranks");
    i->free_ns = dl_calloc(ranks, sizeof *i->free_ns, "ranks");
    i->collectives =
        dl_calloc((size_t)program->collective_count, sizeof *i->collectives, "collectives");
    i->weight = is->config.shape.folded ? split_of(is)->shards : 1;
    for (int r = 0; r < is->ranks; r++) {
        i->factor[r] = 1;
        dl_noise_init(&i->noise[r], &is->noise, (uint32_t)gpu_of(is, worker, r));
    }
    dl_program_run_init(&i->run, &program->program, is->config.gpus.engine, &owner, is, worker);
    init_ways(is, worker);
    dl_status status = DL_OK;
    for (int c = 0; c < program->collective_count && status == DL_OK; c++)
        status = init_collective(is, worker, c, held, err);
    return status;
}

static void init_input(dl_islands *is)
{
    const dl_islands_config *config = &is->config;
    const dl_split *split = &config->shape.split;
    if (!config->shape.with_input) return;
    is->batch = (dl_gpu_step){.input_ns = config->input_ns,
                              .input_bytes = config->input_bytes,
                              .input_copy_ns = config->input_copy_ns};
    const size_t loaders = (size_t)(is->workers * split->shards);
    is->loading = dl_calloc(loaders, sizeof *is->loading, "GPUs");
    is->wants = dl_calloc(loaders, sizeof *is->wants, "GPUs");
    for (int w = 0; w < is->workers; w++)
        for (int f = 0; f < split->shards; f++)
            is->loading[w * split->shards + f] =
                is->places[gpu_of(is, w, dl_split_rank(split, 0, f))];
    dl_input_init(&is->input, &(dl_input_config){
                                  .engine = config->gpus.engine,
                                  .network = &is->network,
                                  .options = config->gpus.options,
                                  .places = is->loading,
                                  .workers = is->workers * split->shards,
                                  .seed = config->gpus.seed,
                                  .replicate = config->gpus.replicate,
                                  .steps = {.of = &is->batch},
                                  .came = on_input,
                                  .user = is,
                              });
}

/* Slowdown of computing beside the worker's own collectives: that of the costs, or the node's if they
 * are inside one and it is larger. */
static double slowdown_of(const dl_islands *is)
{
    const dl_split *split = split_of(is);
    const dl_machine *m = &is->config.gpus.options->machine;
    const double of_costs = is->config.gpus.workload->overlap_slowdown;
    const int node = is->places[0].node;
    bool inside = dl_machine_node(m, node)->overlap_slowdown.known;
    if (split->shards == 1) return 1;
    for (int f = 1; f < split->shards && inside; f++)
        inside = is->places[dl_split_rank(split, 0, f)].node == node;
    return inside ? fmax(of_costs, dl_machine_node(m, node)->overlap_slowdown.value) : of_costs;
}

static dl_status init_all(dl_islands *is, dl_error *err)
{
    const dl_islands_config *config = &is->config;
    int held = 0, flows = 1;
    for (int p = 0; p < is->program_count; p++)
        dl_island_program_make(&is->programs[p], &config->shape, p);
    dl_status status = init_planes(is, err);
    for (int w = 0; w < is->workers && status == DL_OK; w++)
        status = init_island(is, w, &held, err);
    if (status != DL_OK) return status;
    init_input(is);
    for (int r = 0; r < is->ranks; r++)
        flows += dl_gpus_flows(is->planes[r]);
    flows += held + 2 * is->workers * is->ranks + dl_input_most(&is->input);
    dl_network_reserve(&is->network, flows);
    is->slowdown = slowdown_of(is);
    return dl_collective_check_run(config->gpus.options->fidelity, held,
                                   config->gpus.exchanges * config->shape.split.micro_batches, err);
}

dl_status dl_islands_create(dl_islands **made, const dl_islands_config *config, dl_error *err)
{
    dl_islands *is = *made = dl_calloc(1, sizeof *is, "workers of several GPUs");
    const dl_gpu_options *options = config->gpus.options;
    const int workers = config->gpus.workers, ranks = dl_split_ranks(&config->shape.split);
    is->config = *config;
    is->workers = workers;
    is->ranks = ranks;
    is->program_count = config->shape.single_thread ? workers : 1;
    is->programs = dl_calloc((size_t)is->program_count, sizeof *is->programs, "programs");
    is->islands = dl_calloc((size_t)workers, sizeof *is->islands, "workers");
    is->places = dl_calloc((size_t)(workers * ranks), sizeof *is->places, "GPUs");
    is->exchanging = dl_calloc(2 * (size_t)workers, sizeof *is->exchanging, "exchanges");
    is->busy_ns =
        dl_calloc((size_t)config->shape.split.stages, sizeof *is->busy_ns, "times of stages");
    is->sent_bytes = dl_calloc((size_t)dl_machine_domains(&options->machine),
                               sizeof *is->sent_bytes, "bytes of sites");
    for (int g = 0; g < workers * ranks; g++)
        is->places[g] = dl_gpu_options_place(options, g);
    dl_noise_source_init(&is->noise, config->noise, config->gpus.seed, config->gpus.replicate);
    dl_network_init(&is->network, config->gpus.engine, 1);
    is->network.is_uncontended = options->without_contention;
    dl_network_add_links(&is->network, &options->links);
    const dl_status status = init_all(is, err);
    if (status != DL_OK) {
        dl_islands_free(is);
        *made = NULL;
    }
    return status;
}

static void free_island(const dl_islands *is, int worker)
{
    island *i = &is->islands[worker];
    for (int c = 0; i->collectives != NULL && c < program_of(is, worker)->collective_count; c++) {
        dl_collective_free(&i->collectives[c].of);
        free(i->collectives[c].joined);
    }
    dl_program_run_free(&i->run);
    free(i->ways);
    free(i->collectives);
    free(i->noise);
    free(i->factor);
    free(i->free_ns);
}

void dl_islands_free(dl_islands *is)
{
    if (is == NULL) return;
    for (int w = 0; w < is->workers; w++)
        free_island(is, w);
    for (int p = 0; p < is->program_count; p++)
        dl_island_program_free(&is->programs[p]);
    for (int r = 0; r < is->ranks && is->planes != NULL; r++) {
        dl_gpus_free(is->planes[r]);
        free(is->plane_gpus[r]);
    }
    for (int t = 0; t < is->dispatch.thread_count; t++)
        free(is->launches[t].start_ns);
    dl_dispatch_free(&is->dispatch);
    dl_input_free(&is->input);
    dl_network_free(&is->network);
    free(is->launches);
    free(is->launch_ns);
    free(is->ended);
    free(is->planes);
    free(is->plane_gpus);
    free(is->plane_workloads);
    free(is->plane_options);
    free(is->programs);
    free(is->islands);
    free(is->places);
    free(is->loading);
    free(is->wants);
    free(is->exchanging);
    free(is->sent_bytes);
    free(is->busy_ns);
    free(is);
}

/* --- the run ----------------------------------------------------------------------------------- */

static int init(dl_team *team)
{
    team->machine = team->config.machine;
    dl_islands *is = islands_of(team);
    is->team = team;
    for (int r = 0; r < is->ranks; r++)
        dl_gpus_join(is->planes[r], team);
    init_dispatch(is);
    int tasks = 0;
    for (int w = 0; w < is->workers; w++)
        tasks += (int)program_of(is, w)->program.lane_count;
    return team->agents + tasks + is->dispatch.thread_count + dl_input_most(&is->input) +
           2 * is->network.flow_room + 2;
}

static void start(dl_team *team)
{
    dl_islands *is = islands_of(team);
    if (is->config.shape.with_input) dl_input_start(&is->input, team->config.steps);
    dl_dispatch_start(&is->dispatch);
    dl_gpus_traffic_start(is->planes[0]);
}

static void ended(dl_team *team)
{
    dl_dispatch_end(&islands_of(team)->dispatch);
}

static void take_core(dl_team *team, int worker)
{
    dl_team_done(team, worker);
}

static double span_of(const dl_team *team)
{
    double span_ns = 0;
    for (int w = 0; w < team->config.workers; w++)
        span_ns += (double)(team->workers[w].last_end_ns - team->workers[w].measured_since_ns);
    return span_ns;
}

void dl_islands_measure(const dl_team *team, dl_islands_figures *figures)
{
    const dl_islands *is = islands_of(team);
    const dl_split *split = split_of(is);
    const double span_ns = span_of(team);
    figures->bubble_frac = (double)is->bubble_ns / (span_ns * is->ranks);
    for (int s = 0; s < split->stages; s++)
        figures->busy_frac[s] = (double)is->busy_ns[s] / (span_ns * split->shards);
    figures->crossed_bytes = is->crossed_bytes;
    figures->sharded_bytes = is->sharded_bytes;
    figures->exchanged_bytes = 0;
    for (int r = 0; r < is->ranks; r++)
        figures->exchanged_bytes += dl_gpus_moved_bytes(is->planes[r]);
}

static void measure(const dl_team *team, dl_usage *usage)
{
    const dl_islands *is = islands_of(team);
    const dl_split *split = split_of(is);
    const dl_gpu_options *options = is->config.gpus.options;
    const double span_ns = (double)team->engine.now_ns;
    char name[DL_RESOURCE_NAME_BYTES];
    double busy_frac[DL_STAGES_MAX];
    dl_islands_figures figures = {.busy_frac = busy_frac};
    dl_islands_measure(team, &figures);
    for (int s = 0; s < split->stages; s++) {
        snprintf(name, sizeof name, split->stages > 1 ? "stage %d" : "GPUs", s);
        dl_usage_note(usage, name, busy_frac[s]);
    }
    for (int t = 0; t < is->dispatch.thread_count; t++) {
        const dl_launch_thread *thread = &is->dispatch.threads[t];
        const double step_ns = thread->serial_ns + is->launch_ns[t];
        snprintf(name, sizeof name, "host thread %d", t);
        dl_usage_note(usage, name, (double)thread->step * step_ns / span_ns);
    }
    int link = dl_usage_note_links(usage, &is->network, &options->links, dl_ns_to_s(span_ns));
    const char *own = NULL;
    for (int r = 0; link >= 0 && own == NULL && r < is->ranks; r++)
        own = dl_gpus_link_name(is->planes[r], &link);
    if (own != NULL) snprintf(usage->link, sizeof usage->link, "%s", own);
    dl_usage_note(usage, usage->link, usage->link_frac);
    usage->traffic_bytes = figures.crossed_bytes + figures.sharded_bytes + figures.exchanged_bytes;
    for (int d = 0; d < dl_machine_domains(&options->machine); d++) {
        double sent_bytes = is->sent_bytes[d];
        for (int r = 0; r < is->ranks; r++)
            sent_bytes += dl_gpus_sent_bytes(is->planes[r])[d];
        usage->sent_bytes = fmax(usage->sent_bytes, sent_bytes);
    }
}

const dl_platform dl_platform_islands = {
    .name = "islands",
    .serves_while_pulled = true,
    .on_gpus = true,
    .init = init,
    .start = start,
    .ended = ended,
    .compute = compute,
    .update = update,
    .exchange = exchange,
    .cut = cut,
    .take_core = take_core,
    .step_ended = step_ended,
    .members_changed = members_changed,
    .domain = domain,
    .measure = measure,
};
