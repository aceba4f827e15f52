/* Ranks that may stand for others: all shards of a stage, if they do the same at the same time. */
#include "sim/island/island.h"

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

/* The ways of one stage's activations of a worker, all shards and parts. */
typedef struct crossing {
    const dl_islands_config *config;
    dl_route *routes; /* [shards x tensor] */
    int *users;       /* [links] of these routes */
    int *owner;       /* [links] the shard of all workers whose crossings use it, + 1; 0: none */
    bool lone;        /* no two shards use the same link, as far as was seen */
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
            const int own = worker * split->shards + shard + 1;
            c->users[c->routes[n].links[l]]++;
            c->lone = c->lone && (*owner == 0 || *owner == own);
            *owner = own;
        }
    }
}

/* Whether both take as long while all are used. */
static bool is_like(const crossing *c, const dl_route *a, const dl_route *b)
{
    const dl_links *links = &c->config->gpus.options->links;
    if (a->count != b->count || a->latency_ns != b->latency_ns) return false;
    for (int l = 0; l < a->count; l++) {
        if (dl_links_capacity(links, a->links[l]) != dl_links_capacity(links, b->links[l]) ||
            c->users[a->links[l]] != c->users[b->links[l]] || a->uses[l] != b->uses[l])
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
            for (int n = split->tensor; n < count && alike; n++)
                alike = is_like(&c, &c.routes[n], &c.routes[n % split->tensor]);
        }
    }
    free(c.routes);
    free(c.users);
    free(c.owner);
    *lone = c.lone;
    return alike;
}

bool dl_island_shards_are_alike(const dl_islands_config *config, bool *lone)
{
    *lone = false;
    return config->shape.split.shards > 1 && !(config->input_ns > 0) &&
           !config->shape.single_thread && are_as_fast(config) && cross_alike(config, lone);
}
