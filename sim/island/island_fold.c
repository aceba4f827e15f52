/* Finds ranks that may represent others that work in lockstep with them: one shard for all shards
 * of a stage, the shards of a node for those of other nodes, or the ranks of one worker for those
 * of the others. */
#include "sim/island/island.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"

static bool are_as_fast(const dl_islands_config *config)
{
    const int gpus = dl_split_gpus(&config->shape.split);
    for (int g = 0; g < config->gpus.workers * gpus; g++)
        if (config->slow[g] != config->slow[g / gpus * gpus]) return false;
    return true;
}

/* The routes of one stage's activations in a worker, for all shards and parts. */
typedef struct crossing {
    const dl_islands_config *config;
    dl_route *routes; /* [shards x tensor] */
    int *users;       /* [links] number of these routes that use the link */
    int *owner;       /* [links] 1 + number, over all workers, of the set of shards that uses the
                       * link: the simulated ones, or others that they represent; 0: none */
    bool lone;        /* no two of the sets examined so far use the same link */
} crossing;

static void find_routes(crossing *c, int worker, int stage)
{
    const dl_gpu_options *options = c->config->gpus.options;
    const dl_split *split = &c->config->shape.split;
    const int first = worker * dl_split_gpus(split);
    memset(c->users, 0, (size_t)options->links.count * sizeof *c->users);
    for (int n = 0; n < split->shards * split->tensor; n++) {
        const int shard = n / split->tensor, part = n % split->tensor;
        const int from = dl_split_gpu(split, dl_split_rank(split, stage, shard), part);
        const int to =
            dl_split_gpu(split, dl_split_rank(split, (stage + 1) % split->stages, shard), part);
        dl_links_route_collective(&options->links, dl_gpu_options_place(options, first + from),
                                  dl_gpu_options_place(options, first + to), false, &c->routes[n]);
        for (int l = 0; l < c->routes[n].count; l++) {
            int *owner = &c->owner[c->routes[n].links[l]];
            const dl_alike *alike = &c->config->shape.shards;
            const int own = worker * alike->each + alike->at[shard] % alike->each + 1;
            c->users[c->routes[n].links[l]]++;
            c->lone = c->lone && (*owner == 0 || *owner == own);
            *owner = own;
        }
    }
}

/* Whether both routes take equally long while all are in use, given the links' numbers of users. */
static bool is_like(const dl_links *links, const dl_route *a, const int *users_of_a,
                    const dl_route *b, const int *users_of_b)
{
    if (a->count != b->count || a->latency_ns != b->latency_ns) return false;
    for (int l = 0; l < a->count; l++) {
        if (dl_links_capacity(links, a->links[l]) != dl_links_capacity(links, b->links[l]) ||
            users_of_a[a->links[l]] != users_of_b[b->links[l]] || a->uses[l] != b->uses[l])
            return false;
    }
    return true;
}

static bool cross_alike(const dl_islands_config *config, bool *lone)
{
    const dl_split *split = &config->shape.split;
    const int count = split->shards * split->tensor;
    crossing c = {.config = config, .lone = true};
    const size_t links = (size_t)config->gpus.options->links.count;
    c.routes = dl_calloc((size_t)count, sizeof *c.routes, "ways");
    c.users = dl_calloc(links, sizeof *c.users, "links");
    c.owner = dl_calloc(links, sizeof *c.owner, "links");
    bool alike = true;
    for (int w = 0; w < config->gpus.workers; w++) {
        const int ways = split->chunks > 1 ? split->stages : split->stages - 1;
        for (int s = 0; s < ways && alike; s++) {
            find_routes(&c, w, s);
            for (int n = 0; n < count && alike; n++) {
                const int first = dl_alike_member(&config->shape.shards, n / split->tensor, 0);
                alike = is_like(&config->gpus.options->links, &c.routes[n], c.users,
                                &c.routes[first * split->tensor + n % split->tensor], c.users);
            }
        }
    }
    free(c.routes);
    free(c.users);
    free(c.owner);
    *lone = c.lone;
    return alike;
}

/* Whether a batch takes time before it is copied. */
static bool waits_for_batches(const dl_islands_config *config)
{
    const dl_gpu_options *options = config->gpus.options;
    const bool reads =
        options->storage_bytes_per_s.known || options->shared_storage_bytes_per_s.known;
    return config->batch.input_ns > 0 || (reads && config->batch.stored_bytes > 0);
}

/* Routes of one worker, and how many of them use each link. */
typedef struct ways {
    dl_route *routes; /* [count] the worker's internal routes are first */
    int *users;       /* [links] number of these routes that use the link */
    int count, own;
} ways;

static void add_way(ways *w, const dl_gpu_options *options, int from, int to)
{
    dl_route *route = &w->routes[w->count++];
    dl_links_route_collective(&options->links, dl_gpu_options_place(options, from),
                              dl_gpu_options_place(options, to), false, route);
    for (int l = 0; l < route->count; l++)
        w->users[route->links[l]]++;
}

/* Returns the next shard, in ring order, with the same experts as `shard`. */
static int next_owner(const dl_split *split, int shard)
{
    const int owners = dl_split_owners(split);
    const int number =
        shard / split->context / split->experts * split->context + shard % split->context;
    return dl_split_owner(split, dl_split_expert(split, shard), (number + 1) % owners);
}

/* Whether the rings of all groups of shards with the same experts, or with equivalent experts, take
 * equally long while all rings are in use. */
static bool groups_are_alike(const dl_islands_config *config)
{
    const dl_split *split = &config->shape.split;
    const dl_links *links = &config->gpus.options->links;
    const int owners = dl_split_owners(split), gpus = dl_split_gpus(split);
    const int each = 2 * owners * split->tensor;
    if (split->experts == 1 || owners == 1) return true;
    ways w = {.routes = dl_calloc(2 * (size_t)gpus, sizeof *w.routes, "ways"),
              .users = dl_calloc((size_t)links->count, sizeof *w.users, "links")};
    bool alike = true;
    for (int s = 0; s < config->gpus.workers * split->stages && alike; s++) {
        const int stage = s % split->stages, first = s / split->stages * gpus;
        w.count = 0;
        memset(w.users, 0, (size_t)links->count * sizeof *w.users);
        for (int n = 0; n < split->shards * split->tensor; n++) {
            const int owner = n / split->tensor % owners, part = n % split->tensor;
            const int shard = dl_split_owner(split, n / split->tensor / owners, owner);
            const int from = dl_split_gpu(split, dl_split_rank(split, stage, shard), part);
            const int to =
                dl_split_gpu(split, dl_split_rank(split, stage, next_owner(split, shard)), part);
            add_way(&w, config->gpus.options, first + from, first + to);
            add_way(&w, config->gpus.options, first + to, first + from);
        }
        for (int n = 0; n < w.count && alike; n++) {
            const int like = dl_alike_member(&config->shape.experts, n / each, 0);
            alike =
                is_like(links, &w.routes[n], w.users, &w.routes[like * each + n % each], w.users);
        }
    }
    free(w.routes);
    free(w.users);
    return alike;
}

/* Whether the collectives within layers take equally long in all equivalent shards. */
static bool layers_are_alike(const dl_island_shape *shape)
{
    const dl_split *split = &shape->split;
    const int slots = 2 * split->chunks;
    for (int rank = 0; rank < dl_split_ranks(split) && shape->tensors != NULL; rank++) {
        const int like = dl_alike_member(&shape->shards, dl_split_shard(split, rank), 0);
        const int first = dl_split_rank(split, dl_split_stage(split, rank), like);
        for (int i = 0; i < slots; i++) {
            const double ns = shape->tensors[slots * rank + i].ns;
            if (fabs(ns - shape->tensors[slots * first + i].ns) > 1e-6 * ns) return false;
        }
    }
    return true;
}

/* --- groups of shards ------------------------------------------------------------------------ */

void dl_alike_free(dl_alike *alike)
{
    free(alike->members);
    free(alike->at);
}

/* Groups of `each` items in the order of their numbers. */
static void init_alike(dl_alike *alike, int items, int each)
{
    const size_t count = (size_t)items;
    dl_alike_free(alike);
    *alike = (dl_alike){.each = each,
                        .members = dl_calloc(count, sizeof *alike->members, "shards"),
                        .at = dl_calloc(count, sizeof *alike->at, "shards")};
    for (int i = 0; i < items; i++)
        alike->members[i] = alike->at[i] = i;
}

static void group_all(dl_islands_config *config, bool together)
{
    const dl_split *split = &config->shape.split;
    init_alike(&config->shape.shards, split->shards, together ? split->shards : 1);
    init_alike(&config->shape.experts, split->experts, together ? split->experts : 1);
}

/* Number of GPUs of the first stage on the node of the first one. */
static int lines_of_node(const dl_islands_config *config)
{
    const dl_gpu_options *options = config->gpus.options;
    const dl_split *split = &config->shape.split;
    const int node = dl_gpu_options_place(options, 0).node, all = dl_split_lines(split);
    int lines = 1;
    while (lines < all &&
           dl_gpu_options_place(options, dl_split_line(split, 0, lines)).node == node)
        lines++;
    return lines;
}

/* Whether each `lines` GPUs of a stage are on a node, at the same places. */
static bool nodes_correspond(const dl_islands_config *config, int lines)
{
    const dl_gpu_options *options = config->gpus.options;
    const dl_split *split = &config->shape.split;
    const int all = dl_split_lines(split), gpus = dl_split_gpus(split);
    for (int n = 0; n < config->gpus.workers * split->stages * all; n++) {
        const int line = n % all, stage = n / all % split->stages;
        const int worker = gpus * (n / all / split->stages);
        const int first = dl_split_line(split, stage, line / lines * lines);
        const dl_place at =
            dl_gpu_options_place(options, worker + dl_split_line(split, stage, line));
        const dl_place like =
            dl_gpu_options_place(options, worker + dl_split_line(split, stage, line % lines));
        if (at.index != like.index || at.node != dl_gpu_options_place(options, worker + first).node)
            return false;
    }
    return true;
}

/* Groups the parts of the experts by the simulated shards that represent their owners; false if
 * there are no such groups of equal size. */
static bool group_experts(dl_islands_config *config)
{
    const dl_split *split = &config->shape.split;
    const dl_alike *shards = &config->shape.shards;
    dl_alike *experts = &config->shape.experts;
    const int count = split->experts, simulated = split->shards / shards->each;
    DL_AUTOFREE int *like = dl_calloc((size_t)count, sizeof *like, "experts");
    DL_AUTOFREE int *owners = dl_calloc((size_t)count, sizeof *owners, "experts");
    int groups = 0, placed = 0;
    for (int f = 0; f < split->shards; f++) {
        const int own = dl_split_expert(split, f);
        const int first = dl_split_expert(split, dl_alike_member(shards, f, 0));
        if (like[own] > 0 && like[own] != first + 1) return false;
        like[own] = first + 1;
        if (dl_alike_is_first(shards, f) && owners[own]++ == 0) groups++;
    }
    if (count % groups != 0 || simulated % groups != 0) return false;
    init_alike(experts, count, count / groups);
    for (int e = 0; e < count; e++) {
        const int first = placed;
        if (owners[e] == 0) continue;
        if (like[e] != e + 1 || owners[e] != simulated / groups) return false;
        experts->members[placed++] = e;
        for (int other = 0; other < count; other++)
            if (other != e && like[other] == e + 1 && placed < count)
                experts->members[placed++] = other;
        if (placed != first + experts->each) return false;
    }
    for (int i = 0; i < count; i++)
        experts->at[experts->members[i]] = i;
    return true;
}

/* Groups shards with the same place on different nodes; false if there are none. */
static bool group_by_nodes(dl_islands_config *config)
{
    const dl_split *split = &config->shape.split;
    dl_alike *shards = &config->shape.shards;
    const int all = dl_split_lines(split), lines = lines_of_node(config);
    if (lines == all || all % lines != 0 || lines % split->tensor != 0 ||
        !nodes_correspond(config, lines))
        return false;
    init_alike(shards, split->shards, all / lines);
    for (int n = 0, placed = 0; n < all; n++) {
        /* Line 0 of each node, then line 1 of each, and so on. */
        const int line = n % shards->each * lines + n / shards->each;
        const int gpu = dl_split_line(split, 0, line), rank = dl_split_rank_of(split, gpu);
        if (dl_split_gpu(split, rank, 0) != gpu) continue;
        if (placed == split->shards) return false;
        shards->at[dl_split_shard(split, rank)] = placed;
        shards->members[placed++] = dl_split_shard(split, rank);
        const int last = dl_split_gpu(split, rank, split->tensor - 1);
        if (dl_gpu_options_place(config->gpus.options, last).node !=
            dl_gpu_options_place(config->gpus.options, gpu).node)
            return false;
    }
    return group_experts(config);
}

static bool groups_hold(dl_islands_config *config)
{
    return layers_are_alike(&config->shape) && cross_alike(config, &config->shape.lone_crossings) &&
           groups_are_alike(config);
}

/* Whether copies to and from a server stop some of a worker's GPUs longer than others. */
static bool copies_stop_some(const dl_islands_config *config)
{
    return config->gpus.options->staged_stops && !config->gpus.plan.is_collective;
}

void dl_island_find_alike(dl_islands_config *config, bool folds)
{
    if (folds && !copies_stop_some(config) && config->shape.split.shards > 1 &&
        !waits_for_batches(config) && !config->shape.single_thread && are_as_fast(config)) {
        group_all(config, true);
        if (groups_hold(config)) return;
        if (group_by_nodes(config) && groups_hold(config)) return;
    }
    config->shape.lone_crossings = false;
    group_all(config, false);
}

/* --- workers --------------------------------------------------------------------------------- */

/* All routes of a worker: between stages, and between neighbours on the rings of its shards; then,
 * if there are any, those to the next worker, which gradients use concurrently. */
static void list_ways(ways *w, const dl_islands_config *config, int worker)
{
    const dl_split *split = &config->shape.split;
    const dl_gpu_options *options = config->gpus.options;
    const int first = worker * dl_split_gpus(split);
    w->count = 0;
    memset(w->users, 0, (size_t)options->links.count * sizeof *w->users);
    for (int n = 0; n < dl_split_gpus(split); n++) {
        const int part = n % split->tensor, rank = n / split->tensor;
        const int stage = dl_split_stage(split, rank), shard = dl_split_shard(split, rank);
        const int others[] = {dl_split_rank(split, (stage + 1) % split->stages, shard),
                              dl_split_rank(split, stage, (shard + 1) % split->shards),
                              dl_split_rank(split, stage, next_owner(split, shard))};
        const int from = first + dl_split_gpu(split, rank, part);
        for (int i = 0; i < (split->experts > 1 ? 3 : 2); i++) {
            const int to = first + dl_split_gpu(split, others[i], part);
            if (to == from) continue;
            add_way(w, options, from, to);
            add_way(w, options, to, from);
        }
    }
    w->own = w->count;
    const int next = (worker + 1) % config->gpus.workers * dl_split_gpus(split);
    for (int g = 0; g < dl_split_gpus(split) && w->own > 0; g++) {
        add_way(w, options, first + g, next + g);
        add_way(w, options, next + g, first + g);
    }
}

/* Whether each worker's routes correspond to the first worker's, and its internal routes use
 * unshared links. */
static bool go_alike(const dl_islands_config *config)
{
    const dl_links *links = &config->gpus.options->links;
    const size_t most = 8 * (size_t)dl_split_gpus(&config->shape.split);
    ways first = {.routes = dl_calloc(most, sizeof *first.routes, "ways"),
                  .users = dl_calloc((size_t)links->count, sizeof *first.users, "links")};
    ways own = {.routes = dl_calloc(most, sizeof *own.routes, "ways"),
                .users = dl_calloc((size_t)links->count, sizeof *own.users, "links")};
    DL_AUTOFREE int *owner = dl_calloc((size_t)links->count, sizeof *owner, "links");
    bool alike = true;
    list_ways(&first, config, 0);
    for (int w = 0; w < config->gpus.workers && alike; w++) {
        list_ways(&own, config, w);
        for (int n = 0; n < own.count && alike; n++) {
            const dl_route *route = &own.routes[n];
            alike = is_like(links, route, own.users, &first.routes[n], first.users);
            for (int l = 0; l < route->count && n < own.own; l++) {
                int *of = &owner[route->links[l]];
                alike = alike && (*of == 0 || *of == w + 1);
                *of = w + 1;
            }
        }
    }
    free(first.routes);
    free(first.users);
    free(own.routes);
    free(own.users);
    return alike;
}

/* Whether all nodes have equally many GPUs, without sites, and each has GPUs of only one worker or
 * of equally many workers, whose GPUs exchange only data of collectives that were priced before the
 * run. */
static bool nodes_are_alike(const dl_islands_config *config)
{
    const dl_machine *machine = &config->gpus.options->machine;
    const int gpus = dl_split_gpus(&config->shape.split);
    const int node = dl_machine_gpus(machine) / machine->nodes;
    for (int n = 1; n <= machine->nodes; n++)
        if (dl_machine_gpus_before(machine, n) != n * node) return false;
    const dl_split *split = &config->shape.split;
    const bool is_alone = split->stages == 1 && split->shards == 1;
    return dl_machine_domains(machine) == machine->nodes &&
           (gpus % node == 0 || (is_alone && node % gpus == 0));
}

bool dl_island_workers_are_alike(const dl_islands_config *config)
{
    const dl_gpu_options *options = config->gpus.options;
    if (config->gpus.workers == 1 || waits_for_batches(config) || config->shape.single_thread ||
        options->machine.fabric.traffic_count > 0 || !nodes_are_alike(config))
        return false;
    for (int g = 0; g < config->gpus.workers * dl_split_gpus(&config->shape.split); g++)
        if (config->slow[g] != config->slow[0]) return false;
    return go_alike(config);
}

/* --- the exchange between workers ------------------------------------------------------------ */

/* The routes between a worker's GPU and the same one of the next worker, there and back. */
static void find_next(const dl_islands_config *config, int worker, int gpu, dl_route routes[2])
{
    const dl_gpu_options *options = config->gpus.options;
    const int gpus = dl_split_gpus(&config->shape.split);
    const dl_place from = dl_gpu_options_place(options, worker * gpus + gpu);
    const int next = (worker + 1) % config->gpus.workers;
    const dl_place to = dl_gpu_options_place(options, next * gpus + gpu);
    dl_links_route_collective(&options->links, from, to, false, &routes[0]);
    dl_links_route_collective(&options->links, to, from, false, &routes[1]);
}

/* Counts the routes on each link; false if the GPUs of two groups of `lines` share one. */
static bool count_users(const dl_islands_config *config, int lines, int *users, int *owner)
{
    const dl_split *split = &config->shape.split;
    const int all = dl_split_lines(split);
    bool apart = true;
    for (int n = 0; n < config->gpus.workers * split->stages * all && apart; n++) {
        dl_route routes[2];
        const int group = n % all / lines + 1, stage = n / all % split->stages;
        find_next(config, n / all / split->stages, dl_split_line(split, stage, n % all), routes);
        for (int way = 0; way < 2; way++) {
            for (int l = 0; l < routes[way].count; l++) {
                int *of = &owner[routes[way].links[l]];
                apart = apart && (*of == 0 || *of == group);
                *of = group;
                users[routes[way].links[l]]++;
            }
        }
    }
    return apart;
}

int dl_island_lines_apart(const dl_islands_config *config)
{
    const dl_split *split = &config->shape.split;
    const dl_links *links = &config->gpus.options->links;
    const int all = dl_split_lines(split), lines = lines_of_node(config);
    if (lines == all || all % lines > 0) return all;
    DL_AUTOFREE int *users = dl_calloc((size_t)links->count, sizeof *users, "links");
    DL_AUTOFREE int *owner = dl_calloc((size_t)links->count, sizeof *owner, "links");
    bool alike = count_users(config, lines, users, owner);
    for (int n = 0; n < config->gpus.workers * split->stages * all && alike; n++) {
        dl_route own[2], first[2];
        const int line = n % all, stage = n / all % split->stages;
        if (line < lines) continue;
        find_next(config, n / all / split->stages, dl_split_line(split, stage, line), own);
        find_next(config, n / all / split->stages, dl_split_line(split, stage, line % lines),
                  first);
        for (int way = 0; way < 2; way++)
            alike = alike && is_like(links, &own[way], users, &first[way], users);
    }
    return alike ? lines : all;
}
