/* Initialises workers of several GPUs: planes, routes between stages, collectives, loaders. */
#include "sim/island/island_internal.h"

#include <math.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/units.h"

/* A GPU's share of the vectors: the share of its stage, divided by the number of shards. */
static double share_of(const dl_islands *is, int number)
{
    const dl_split *split = dl_islands_split(is);
    const int stage = dl_split_stage(split, dl_split_rank_of(split, number));
    return is->config.held_share[stage] / split->shards;
}

static void make_plane(dl_islands *is, int plane)
{
    const dl_islands_config *config = &is->config;
    const int number = is->plane_numbers[plane];
    const dl_split *split = &config->shape.split;
    const double share = share_of(is, number);
    const dl_stage *stage =
        &config->shape.stages[dl_split_stage(split, dl_split_rank_of(split, number))];
    dl_workload *workload = &is->plane_workloads[plane];
    dl_gpu_options *options = &is->plane_options[plane];
    int *gpus = is->plane_gpus[plane] = dl_calloc((size_t)is->workers, sizeof *gpus, "GPUs");
    const dl_gpu_options *all = config->gpus.options;
    const int count = dl_gpu_options_count(all);
    *workload = *config->gpus.workload;
    workload->parameter_bytes *= share;
    workload->state_bytes *= share;
    workload->update_ns *= share;
    /* Servers also take buckets if all of them are sent at the end of the step. */
    const bool is_cut = config->shape.exchanges_buckets ||
                        !(config->gpus.plan.as_ready || config->gpus.plan.is_collective);
    const bool as_ready = is_cut && split->stages == 1;
    if (!as_ready) workload->gradient_count = 0;
    for (int w = 0; w < is->workers; w++) {
        const int gpu = (w * is->gpus + number) % count;
        gpus[w] = all->gpus != NULL ? all->gpus[gpu] : gpu;
    }
    *options = *all;
    options->gpus = gpus;
    options->gpu_count = is->workers;
    options->own_buckets = as_ready && all->own_buckets;
    options->bucket_bytes =
        (int64_t)ceil((double)all->bucket_bytes * dl_stage_spread(split, stage) / split->shards);
    if (plane > 0) options->machine.fabric.traffic_count = 0; /* other jobs' traffic only once */
}

/* Lists the simulated planes: only the first one if workers do not exchange. */
static void list_planes(dl_islands *is)
{
    const dl_split *split = dl_islands_split(is);
    const int stages = is->config.exchanges ? split->stages : 1;
    const int lines = is->config.exchanges ? is->config.lines : 1;
    is->plane_numbers = dl_calloc((size_t)is->gpus, sizeof *is->plane_numbers, "GPUs");
    is->plane_of = dl_calloc((size_t)is->gpus, sizeof *is->plane_of, "GPUs");
    for (int n = 0; n < stages * lines; n++)
        is->plane_of[dl_split_line(split, n % stages, n / stages)] = 1;
    for (int g = 0; g < is->gpus; g++) {
        const bool is_simulated = is->plane_of[g] > 0;
        is->plane_of[g] = is_simulated ? is->plane_count : -1;
        if (is_simulated) is->plane_numbers[is->plane_count++] = g;
    }
    is->plane_weight = is->config.exchanges ? dl_split_lines(split) / lines : 1;
}

static dl_status init_planes(dl_islands *is, dl_error *err)
{
    list_planes(is);
    const size_t gpus = (size_t)is->plane_count;
    dl_status status = DL_OK;
    /* Gradients reduced by shards are exchanged in their reduction type, or compressed. */
    const dl_exchange_plan *plan = &is->config.gpus.plan;
    const bool halves = is->config.shape.exchanges_buckets && plan->is_collective && !plan->packs &&
                        plan->sharers == 1;
    const double sent = halves ? is->config.shape.within.sum_frac : 1;
    is->planes = dl_calloc(gpus, sizeof(dl_gpus *), "GPUs");
    is->plane_gpus = dl_calloc(gpus, sizeof(int *), "GPUs");
    is->plane_workloads = dl_calloc(gpus, sizeof *is->plane_workloads, "GPUs");
    is->plane_options = dl_calloc(gpus, sizeof *is->plane_options, "GPUs");
    for (int g = 0; g < is->plane_count && status == DL_OK; g++) {
        make_plane(is, g);
        const double share = share_of(is, is->plane_numbers[g]);
        dl_gpus_config config = is->config.gpus;
        config.options = &is->plane_options[g];
        config.workload = &is->plane_workloads[g];
        config.content_bytes *= share * sent;
        config.inside_bytes *= share;
        config.with_input = false;
        config.network = &is->network;
        config.exchanged = dl_islands_exchanged;
        config.stopped = dl_islands_stopped;
        config.fetched = dl_islands_fetched;
        config.user = is;
        status = dl_gpus_create(&is->planes[g], &config, err);
        if (status == DL_OK && g == 0 && is->config.shape.with_input)
            is->storage = dl_gpus_add_storage(is->planes[0]);
    }
    return status;
}

static void init_ways(dl_islands *is, int worker)
{
    const dl_island_shape *shape = &is->config.shape;
    const dl_split *split = &shape->split;
    dl_island *i = &is->islands[worker];
    const dl_machine *m = &is->config.gpus.options->machine;
    i->ways = dl_calloc(2 * (size_t)is->gpus, sizeof *i->ways, "crossings");
    for (int n = 0; n < 2 * is->gpus; n++) {
        const int part = n % split->tensor, rank = n / split->tensor / 2;
        const bool forward = n / split->tensor % 2 == 1;
        const int stage = dl_split_stage(split, rank), to_stage = forward ? stage + 1 : stage - 1;
        if (split->chunks == 1 && (to_stage < 0 || to_stage >= split->stages)) continue;
        const int to = dl_split_rank(split, (to_stage + split->stages) % split->stages,
                                     dl_split_shard(split, rank));
        const dl_place a = is->places[dl_islands_gpu(is, worker, rank, part)],
                       b = is->places[dl_islands_gpu(is, worker, to, part)];
        const int domain = dl_machine_domain(m, a.node);
        dl_route route;
        dl_links_route_collective(&is->config.gpus.options->links, a, b, false, &route);
        i->ways[n] = (dl_island_way){
            .class = dl_network_route_class(&is->network, &route),
            .latency_ns = dl_ns_ceil(route.latency_ns),
            .domain = domain != dl_machine_domain(m, b.node) ? domain : -1,
        };
    }
}

/* Number within the worker of GPU `member` of part `part` of collectives[index]. Parts are those of
 * the layers and, if a group of shards with the same experts represents the others, of these. */
static int member_of(const dl_islands *is, int worker, int index, int part, int member)
{
    const dl_split *split = dl_islands_split(is);
    const int groups = dl_islands_groups(is);
    const dl_island_collective *of = &dl_islands_program(is, worker)->collectives[index / groups];
    const dl_alike *experts = &is->config.shape.experts;
    const int expert = experts->members[index % groups * experts->each + part / split->tensor];
    const int shard = of->experts ? dl_split_owner(split, expert, member) : member;
    return dl_islands_gpu(is, 0, dl_split_rank(split, of->stage, shard), part % split->tensor);
}

static int by_number(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* Initialises part `part` of collectives[index]. */
static dl_status init_part(dl_islands *is, int worker, int index, int part, int *held,
                           dl_error *err)
{
    const dl_gpu_options *options = is->config.gpus.options;
    const dl_split *split = dl_islands_split(is);
    const dl_island_collective *of =
        &dl_islands_program(is, worker)->collectives[index / dl_islands_groups(is)];
    dl_island_reduction *c = &is->islands[worker].collectives[index];
    const int count = dl_islands_shards(is, of);
    DL_AUTOFREE int *members = dl_calloc((size_t)count, sizeof *members, "shards");
    DL_AUTOFREE dl_place *ranks = dl_calloc((size_t)count, sizeof *ranks, "shards");
    for (int f = 0; f < count; f++)
        members[f] = member_of(is, worker, index, part, f);
    /* The GPUs of a node are consecutive. */
    if (split->experts > 1) qsort(members, (size_t)count, sizeof *members, by_number);
    for (int f = 0; f < count; f++)
        ranks[f] = is->places[worker * is->gpus + members[f]];
    const dl_exchange_plan *within = &is->config.shape.within;
    dl_collective_config config = dl_gpu_options_collective(
        options, is->config.gpus.workload, of->gathers ? DL_ALLGATHER : within->sum, ranks, count,
        (of->gathers ? within->gather_frac : within->sum_frac) *
            dl_buckets_part(&is->config.shape.buckets[of->stage], of->bucket, of->experts));
    config.transfers_max = DL_TRANSFERS_HELD_MAX - *held;
    dl_status status =
        dl_collective_init(&c->of[part], &is->network, &options->links, &config, err);
    if (status != DL_OK) return status;
    *held += c->of[part].plan.transfer_count;
    c->moved_bytes += dl_collective_sent_bytes(&c->of[part]);
    dl_collective_on_done(&c->of[part], dl_islands_reduced, &is->islands[worker], index);
    return DL_OK;
}

static void mark_links(const dl_islands *is, dl_place a, dl_place b, int part, int *owner,
                       bool *apart)
{
    dl_route route;
    dl_links_route_collective(&is->config.gpus.options->links, a, b, false, &route);
    for (int l = 0; l < route.count; l++) {
        int *of = &owner[route.links[l]];
        *apart = *apart && (*of == 0 || *of == part + 1);
        *of = part + 1;
    }
}

/* Whether the routes between shards with one part share no link with those of any other part, and
 * all parts of a shard are on one node. If so, the collectives of all parts take equally long and
 * send equally many bytes. */
static bool parts_are_apart(const dl_islands *is, int worker, int index)
{
    const dl_island_collective *of =
        &dl_islands_program(is, worker)->collectives[index / dl_islands_groups(is)];
    const int shards = dl_islands_shards(is, of);
    const size_t links = (size_t)is->config.gpus.options->links.count;
    const dl_place *places = &is->places[worker * is->gpus];
    DL_AUTOFREE int *owner = dl_calloc(links, sizeof *owner, "links");
    bool apart = true;
    for (int part = 0; part < dl_islands_parts(is, of) && apart; part++) {
        for (int f = 0; f < shards && apart; f++) {
            const dl_place a = places[member_of(is, worker, index, part, f)];
            const dl_place b = places[member_of(is, worker, index, part, (f + 1) % shards)];
            apart = apart && a.node == places[member_of(is, worker, index, 0, f)].node;
            mark_links(is, a, b, part, owner, &apart);
            mark_links(is, b, a, part, owner, &apart);
        }
    }
    return apart;
}

/* Initialises collectives[index]. `held`: total transfers of all collectives so far. */
static dl_status init_collective(dl_islands *is, int worker, int index, int *held, dl_error *err)
{
    const int groups = dl_islands_groups(is);
    const dl_island_collective *of = &dl_islands_program(is, worker)->collectives[index / groups];
    const int parts = dl_islands_parts(is, of);
    dl_island_reduction *c = &is->islands[worker].collectives[index];
    if (!of->experts && index % groups > 0) return DL_OK; /* all groups together have the first */
    c->joined = dl_calloc((size_t)dl_islands_shards(is, of), sizeof *c->joined, "shards");
    c->of = dl_calloc((size_t)parts, sizeof *c->of, "collectives");
    /* Workers' exchange shares the links of all groups with the same experts. */
    const bool may_be_one =
        is->config.shape.shards.each > 1 && !(of->experts && is->config.exchanges);
    c->parts = may_be_one && parts_are_apart(is, worker, index) ? 1 : parts;
    dl_status status = DL_OK;
    for (int part = 0; part < c->parts && status == DL_OK; part++)
        status = init_part(is, worker, index, part, held, err);
    c->moved_bytes *= (double)parts / c->parts;
    return status;
}

static dl_status init_island(dl_islands *is, int worker, int *held, dl_error *err)
{
    dl_island *i = &is->islands[worker];
    const dl_island_program *program = dl_islands_program(is, worker);
    const size_t ranks = (size_t)is->ranks;
    i->noise = dl_calloc((size_t)is->gpus, sizeof *i->noise, "GPUs");
    i->factor = dl_calloc(ranks, sizeof *i->factor, "ranks");
    i->stops = dl_calloc(ranks, sizeof *i->stops, "ranks");
    i->stopped_since_ns = dl_calloc(ranks, sizeof *i->stopped_since_ns, "ranks");
    i->stopped_ns = dl_calloc(ranks, sizeof *i->stopped_ns, "ranks");
    i->speed = dl_calloc(ranks, sizeof *i->speed, "ranks");
    i->free_ns = dl_calloc(ranks, sizeof *i->free_ns, "ranks");
    i->awaits = dl_calloc(ranks, sizeof *i->awaits, "ranks");
    const int collectives = program->collective_count * dl_islands_groups(is);
    i->collectives = dl_calloc((size_t)collectives, sizeof *i->collectives, "collectives");
    i->weight = is->config.shape.shards.each;
    for (int r = 0; r < is->ranks; r++) {
        i->factor[r] = i->speed[r] = 1;
        i->awaits[r] = DL_TASK_NONE;
    }
    for (int g = 0; g < is->gpus; g++)
        dl_noise_init(&i->noise[g], &is->noise, (uint32_t)(worker * is->gpus + g));
    dl_program_run_init(&i->run, &program->program, is->config.gpus.engine, &dl_islands_owner, is,
                        worker);
    init_ways(is, worker);
    dl_status status = DL_OK;
    for (int c = 0; c < collectives && status == DL_OK; c++)
        status = init_collective(is, worker, c, held, err);
    return status;
}

static void init_input(dl_islands *is)
{
    const dl_islands_config *config = &is->config;
    const dl_split *split = &config->shape.split;
    if (!config->shape.with_input) return;
    const size_t loaders = (size_t)is->workers * (size_t)split->shards;
    is->loading = dl_calloc(loaders, sizeof *is->loading, "GPUs");
    is->wants = dl_calloc(loaders, sizeof *is->wants, "GPUs");
    for (int w = 0; w < is->workers; w++)
        for (int f = 0; f < split->shards; f++)
            is->loading[w * split->shards + f] =
                is->places[dl_islands_gpu(is, w, dl_split_rank(split, 0, f), 0)];
    dl_input_init(&is->input, &(dl_input_config){
                                  .engine = config->gpus.engine,
                                  .network = &is->network,
                                  .options = config->gpus.options,
                                  .places = is->loading,
                                  .workers = is->workers * split->shards,
                                  .seed = config->gpus.team->seed,
                                  .replicate = config->gpus.team->replicate,
                                  .steps = {.of = &config->batch},
                                  .storage = is->storage,
                                  .came = dl_islands_came,
                                  .user = is,
                              });
}

/* Slowdown of compute by collectives among the shards of a worker's first stage. */
static double slowdown_of_shards(const dl_islands *is)
{
    const dl_split *split = &is->config.shape.split;
    DL_AUTOFREE dl_place *shards = dl_calloc((size_t)split->shards, sizeof *shards, "GPUs");
    for (int f = 0; f < split->shards; f++)
        shards[f] = is->places[dl_islands_gpu(is, 0, dl_split_rank(split, 0, f), 0)];
    return dl_gpus_slowdown(is->config.gpus.options, is->config.gpus.workload, shards,
                            split->shards);
}

static dl_status init_all(dl_islands *is, dl_error *err)
{
    const dl_islands_config *config = &is->config;
    int held = 0, flows = 1;
    for (int p = 0; p < is->program_count; p++)
        dl_island_program_make(&is->programs[p], &config->shape, p);
    dl_status status = init_planes(is, err);
    for (int w = 0; w < is->workers; w++)
        is->islands[w].began_ns = -1;
    for (int w = 0; w < (config->lone_worker ? 1 : is->workers) && status == DL_OK; w++)
        status = init_island(is, w, &held, err);
    if (status != DL_OK) return status;
    init_input(is);
    for (int g = 0; g < is->plane_count; g++)
        flows += dl_gpus_flows(is->planes[g]);
    flows += held + 2 * is->workers * is->gpus + dl_input_most(&is->input);
    dl_network_reserve(&is->network, flows);
    const dl_split *split = &config->shape.split;
    is->slowdown = split->shards > 1 ? slowdown_of_shards(is) : 1;
    return dl_collective_check_run(
        config->gpus.options->fidelity, held,
        dl_team_exchanges(config->gpus.team) * config->shape.split.micro_batches, err);
}

/* Records which rank is on each GPU of the machine. */
static void init_ranks(dl_islands *is)
{
    const dl_machine *m = &is->config.gpus.options->machine;
    const int tensor = is->gpus / is->ranks, all = dl_machine_gpus(m);
    is->rank_of = dl_calloc((size_t)all, sizeof *is->rank_of, "GPUs");
    for (int g = 0; g < all; g++)
        is->rank_of[g] = -1;
    for (int n = 0; n < (is->config.lone_worker ? 1 : is->workers) * is->ranks; n++) {
        for (int part = 0; part < tensor; part++) {
            const int gpu = dl_islands_gpu(is, n / is->ranks, n % is->ranks, part);
            is->rank_of[dl_place_gpu_number(m, is->places[gpu])] = n;
        }
    }
}

dl_status dl_islands_create(dl_islands **made, const dl_islands_config *config, dl_error *err)
{
    dl_islands *is = *made = dl_calloc(1, sizeof *is, "workers of several GPUs");
    const dl_gpu_options *options = config->gpus.options;
    const int workers = config->gpus.workers, gpus = dl_split_gpus(&config->shape.split);
    is->config = *config;
    is->workers = workers;
    is->ranks = dl_split_ranks(&config->shape.split);
    is->gpus = gpus;
    is->program_count = config->shape.single_thread ? workers : 1;
    is->programs = dl_calloc((size_t)is->program_count, sizeof *is->programs, "programs");
    is->islands = dl_calloc((size_t)workers, sizeof *is->islands, "workers");
    is->places = dl_calloc((size_t)workers * (size_t)gpus, sizeof *is->places, "GPUs");
    is->exchanging = dl_calloc(2 * (size_t)workers, sizeof *is->exchanging, "exchanges");
    is->busy_ns =
        dl_calloc((size_t)config->shape.split.stages, sizeof *is->busy_ns, "times of stages");
    is->sent_bytes = dl_calloc((size_t)dl_machine_domains(&options->machine),
                               sizeof *is->sent_bytes, "bytes of sites");
    for (int g = 0; g < workers * gpus; g++)
        is->places[g] = dl_gpu_options_place(options, g);
    init_ranks(is);
    dl_noise_source_init(&is->noise, config->noise, config->gpus.team->seed,
                         config->gpus.team->replicate);
    dl_network_init(&is->network, config->gpus.engine, 1);
    is->network.is_uncontended = options->without_contention;
    dl_network_add_links(&is->network, &options->links);
    const dl_team_observer *observer = config->gpus.team->observer;
    if (observer != NULL && observer->link != NULL)
        dl_network_watch(&is->network, observer->link, observer->user);
    const dl_status status = init_all(is, err);
    if (status != DL_OK) {
        dl_islands_free(is);
        *made = NULL;
    }
    return status;
}

static void free_island(const dl_islands *is, int worker)
{
    dl_island *i = &is->islands[worker];
    const int collectives =
        dl_islands_program(is, worker)->collective_count * dl_islands_groups(is);
    for (int c = 0; c < collectives && i->collectives != NULL; c++) {
        dl_island_reduction *of = &i->collectives[c];
        for (int part = 0; part < of->parts && of->of != NULL; part++)
            dl_collective_free(&of->of[part]);
        free(of->of);
        free(of->joined);
    }
    dl_program_run_free(&i->run);
    free(i->ways);
    free(i->collectives);
    free(i->noise);
    free(i->factor);
    free(i->stops);
    free(i->stopped_since_ns);
    free(i->stopped_ns);
    free(i->speed);
    free(i->free_ns);
    free(i->awaits);
}

void dl_islands_free(dl_islands *is)
{
    if (is == NULL) return;
    for (int w = 0; w < is->workers; w++)
        free_island(is, w);
    for (int p = 0; p < is->program_count; p++)
        dl_island_program_free(&is->programs[p]);
    for (int g = 0; g < is->plane_count && is->planes != NULL; g++) {
        dl_gpus_free(is->planes[g]);
        free(is->plane_gpus[g]);
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
    free(is->plane_numbers);
    free(is->plane_of);
    free(is->plane_gpus);
    free(is->plane_workloads);
    free(is->plane_options);
    free(is->programs);
    free(is->islands);
    free(is->places);
    free(is->rank_of);
    free(is->loading);
    free(is->wants);
    free(is->exchanging);
    free(is->sent_bytes);
    free(is->busy_ns);
    free(is);
}
