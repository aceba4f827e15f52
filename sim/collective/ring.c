/* Rings: all ranks send to their neighbours at once; reduce and broadcast are pipelined chains. */
#include <math.h>

#include "sim/collective/rings.h"

static bool supports(const dl_collective_config *config)
{
    return config->kind != DL_ALLTOALL;
}

/* The chain from the root along the ring (to the root for a reduce): order[at] is the root. */
typedef struct chain {
    const dl_place *order;
    int size, at;
    bool towards_root;
} chain;

/* Edge i of the chain, in the order in which a chunk crosses them. */
static void chain_edge(const chain *c, int i, dl_place *from, dl_place *to)
{
    int first = c->towards_root ? c->at + 1 : c->at;
    *from = c->order[(first + i) % c->size];
    *to = c->order[(first + i + 1) % c->size];
}

/* Each edge carries all bytes. In front stand the latencies of the whole chain, and the time in
 * which the pipeline fills: n - 2 chunks, at the rate of the slowest edge while other rings share
 * the faster ones, at each edge's own where there is but one chunk. */
static void chain_as_phase(dl_plan *plan, const chain *c, double bytes, int chunks)
{
    double slowest_ns = 0, all_ns = 0, latency_ns = 0;
    dl_place from, to;
    for (int i = 0; i < c->size - 1; i++) {
        chain_edge(c, i, &from, &to);
        double chunk_ns = bytes / chunks / dl_plan_rate(plan, from, to) * 1e9;
        slowest_ns = fmax(slowest_ns, chunk_ns);
        all_ns += chunk_ns;
        latency_ns += dl_plan_hop_ns(plan, from, to);
    }
    double alone_ns = all_ns - slowest_ns, shared_ns = (c->size - 2) * slowest_ns;
    double fill_ns = shared_ns + (alone_ns - shared_ns) / chunks;
    for (int i = 0; i < c->size - 1; i++) {
        chain_edge(c, i, &from, &to);
        (void)dl_plan_add(plan, from, to, bytes, 0, latency_ns + fill_ns);
    }
}

/* Chunk k goes over edge i when it has come over edge i - 1 and chunk k - 1 is through. */
static void chain_as_chunks(dl_plan *plan, const chain *c, double bytes, int chunks)
{
    int stride = 2 * (c->size - 1); /* transfers of a chunk: two an edge */
    for (int k = 0; k < chunks; k++) {
        for (int i = 0; i < c->size - 1; i++) {
            dl_place from, to;
            chain_edge(c, i, &from, &to);
            int before = k > 0 ? plan->transfer_count + 1 - stride : -1;
            int t = dl_plan_add_chunk(plan, from, to, bytes / chunks, before);
            if (i > 0) dl_plan_order(plan, t - 2, t - 1);
        }
    }
}

static void plan_chains(dl_plan *plan, const dl_collective_config *config, const dl_rings *rings)
{
    dl_place root = config->ranks[config->root];
    double bytes = config->bytes / rings->count;
    int chunks = dl_chunk_count(bytes, config->chunk_bytes);
    for (int r = 0; r < rings->count; r++) {
        chain c = {rings->order + r * rings->size, rings->size, 0, config->kind == DL_REDUCE};
        while (c.order[c.at].node != root.node || c.order[c.at].index != root.index)
            c.at++;
        if (config->fidelity == DL_FIDELITY_PHASE) {
            chain_as_phase(plan, &c, bytes, chunks);
        } else {
            chain_as_chunks(plan, &c, bytes, chunks);
        }
    }
}

static void plan_ring(dl_plan *plan, const dl_collective_config *config)
{
    dl_rings rings;
    int n = config->rank_count;
    dl_rings_init(&rings, plan->links, config->ranks, n);
    if (config->kind == DL_REDUCE || config->kind == DL_BROADCAST) {
        plan_chains(plan, config, &rings);
    } else {
        int rounds = config->kind == DL_ALLREDUCE ? 2 * (n - 1) : n - 1;
        int join = dl_plan_join(plan);
        dl_rings_pass(plan, config->fidelity, &rings, config->bytes / n, rounds, -1, join);
    }
    dl_rings_free(&rings);
}

const dl_collective_algorithm dl_collective_ring = {"ring", supports, plan_ring, NULL};
