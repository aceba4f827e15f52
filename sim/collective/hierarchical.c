/* All-reduce over nodes with equally many ranks: reduce-scatter in each node, so that each rank has
 * the node's sum of its part; all-reduce of that part among the ranks of the same number in all
 * nodes; all-gather in each node. */
#include <stdlib.h>

#include "common/alloc.h"
#include "sim/collective/rings.h"

static bool supports(const dl_collective_config *config)
{
    int per_node = dl_ranks_per_node(config->ranks, config->rank_count);
    return config->kind == DL_ALLREDUCE && per_node > 1 && per_node < config->rank_count;
}

/* n-1 rounds in every node; reduce-scatter and all-gather look the same. */
static void plan_nodes(dl_plan *plan, const dl_collective_config *config, int per_node, int after,
                       int join)
{
    for (int start = 0; start < config->rank_count; start += per_node) {
        dl_rings rings;
        dl_rings_init(&rings, plan->links, config->ranks + start, per_node);
        dl_rings_pass(plan, config->fidelity, &rings, config->bytes / per_node, per_node - 1, after,
                      join);
        dl_rings_free(&rings);
    }
}

static void plan_between(dl_plan *plan, const dl_collective_config *config, int per_node, int after,
                         int join)
{
    int nodes = config->rank_count / per_node;
    dl_place *order = dl_calloc((size_t)nodes, sizeof *order, "ranks of equal number");
    for (int i = 0; i < per_node; i++) {
        for (int node = 0; node < nodes; node++)
            order[node] = config->ranks[node * per_node + i];
        dl_ring_pass(plan, config->fidelity, order, nodes, config->bytes / per_node / nodes,
                     2 * (nodes - 1), after, join);
    }
    free(order);
}

static void plan_hierarchical(dl_plan *plan, const dl_collective_config *config)
{
    int per_node = dl_ranks_per_node(config->ranks, config->rank_count);
    int scattered = dl_plan_join(plan), reduced = dl_plan_join(plan), end = dl_plan_join(plan);
    plan_nodes(plan, config, per_node, -1, scattered);
    plan_between(plan, config, per_node, scattered, reduced);
    plan_nodes(plan, config, per_node, reduced, end);
}

const dl_collective_algorithm dl_collective_hierarchical = {"hierarchical", supports,
                                                            plan_hierarchical, NULL};
