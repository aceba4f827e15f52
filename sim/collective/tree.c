/* Pipelined binary trees: all-reduce over two of them, each for half of the bytes, so that a rank
 * that passes on in one is a leaf of the other and both directions of all links are in use. */
#include <math.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "sim/collective/rings.h"

static bool supports(const dl_collective_config *config)
{
    return config->kind == DL_ALLREDUCE || config->kind == DL_REDUCE ||
           config->kind == DL_BROADCAST;
}

/* The parent of `rank` in a tree of size n in which rank 0 is the root, its child is the largest
 * power of two below n, and odd ranks are leaves; -1 for the root. */
static int parent_of(int rank, int n)
{
    if (rank == 0) return -1;
    int low = rank & -rank, up = (rank - low) | 2 * low;
    return up < n ? up : rank - low;
}

/* One tree over the ranks: place i of it is ranks[(offset + sign * i) mod n]. */
typedef struct tree {
    const dl_collective_config *config;
    int offset, sign;
    double bytes;
    int chunks;
} tree;

static dl_place place_of(const tree *t, int i)
{
    int n = t->config->rank_count;
    return t->config->ranks[((t->offset + t->sign * i) % n + n) % n];
}

static tree make_tree(const dl_collective_config *config, int offset, int sign, double bytes)
{
    return (tree){config, offset, sign, bytes, dl_chunk_count(bytes, config->chunk_bytes)};
}

/* The places of edge i (between place i and its parent), in the order of the direction. */
static void edge_places(const tree *t, bool up, int i, dl_place *from, dl_place *to)
{
    dl_place child = place_of(t, i), parent = place_of(t, parent_of(i, t->config->rank_count));
    *from = up ? child : parent;
    *to = up ? parent : child;
}

static bool share_a_link(const dl_route *a, const dl_route *b)
{
    for (int i = 0; i < a->count; i++) {
        for (int j = 0; j < b->count; j++) {
            if (a->links[i] == b->links[j]) return true;
        }
    }
    return false;
}

static void route_up(const dl_plan *plan, const tree *t, int i, dl_route *route)
{
    dl_place from, to;
    edge_places(t, true, i, &from, &to);
    dl_links_route(plan->links, from, to, route);
}

/* Edges into the parent of place i that share a link with i's, which is one of them. */
static int edges_beside(const dl_plan *plan, const tree *t, int i)
{
    const int n = t->config->rank_count, parent = parent_of(i, n);
    dl_route own, other;
    route_up(plan, t, i, &own);
    int count = 1;
    for (int sibling = 1; sibling < n; sibling++) {
        if (sibling == i || parent_of(sibling, n) != parent) continue;
        route_up(plan, t, sibling, &other);
        count += share_a_link(&own, &other);
    }
    return count;
}

/* What a chunk's way costs beside edge i itself: below_ns[i] of the deepest way under it,
 * above_ns[i] of that from it to the root. Both are [n] zeros before. */
static void measure_ways(const dl_plan *plan, const tree *t, double *below_ns, double *above_ns)
{
    const int n = t->config->rank_count;
    double *edge_ns = dl_calloc((size_t)n, sizeof *edge_ns, "edges of a tree");
    for (int i = 1; i < n; i++) { /* one chunk, beside those of its siblings */
        dl_place from, to;
        edge_places(t, true, i, &from, &to);
        const double bytes_at_once = edges_beside(plan, t, i) * t->bytes;
        edge_ns[i] = dl_plan_hop_ns(plan, from, to) +
                     bytes_at_once / t->chunks / dl_plan_rate(plan, from, to) * 1e9;
    }
    for (int i = 1; i < n; i++) {
        double way_ns = 0;
        for (int at = i; at != 0; at = parent_of(at, n)) {
            below_ns[at] = fmax(below_ns[at], way_ns);
            way_ns += edge_ns[at];
        }
        above_ns[i] = way_ns - edge_ns[i];
    }
    free(edge_ns);
}

/* Flow of all bytes over each edge; after and join as of rounds of a ring. It starts when the first
 * chunk is there, and when it has ended the last chunk goes on to the end of its way. */
static void tree_as_phase(dl_plan *plan, const tree *t, bool up, int after, int join)
{
    const int n = t->config->rank_count;
    double *below_ns = dl_calloc((size_t)n, sizeof *below_ns, "ways in a tree");
    double *above_ns = dl_calloc((size_t)n, sizeof *above_ns, "ways in a tree");
    measure_ways(plan, t, below_ns, above_ns);
    for (int i = 1; i < n; i++) {
        dl_place from, to;
        edge_places(t, up, i, &from, &to);
        int edge = dl_plan_add(plan, from, to, t->bytes, 1, up ? below_ns[i] : above_ns[i]);
        int rest = dl_plan_wait(plan, up ? above_ns[i] : below_ns[i]);
        dl_plan_order(plan, after, edge);
        dl_plan_order(plan, edge, rest);
        dl_plan_order(plan, rest, join);
    }
    free(below_ns);
    free(above_ns);
}

/* All chunks of one direction: the bytes of chunk k over edge i are transfer
 * first + 2 (k (n-1) + i - 1), the one in front is its hop. Up, chunk k waits for that of both
 * children; down, for that of the parent. */
static void tree_as_chunks(dl_plan *plan, const tree *t, bool up, int after, int join)
{
    int n = t->config->rank_count, stride = 2 * (n - 1), first = plan->transfer_count + 1;
    for (int k = 0; k < t->chunks; k++) {
        for (int i = 1; i < n; i++) {
            dl_place from, to;
            edge_places(t, up, i, &from, &to);
            int before = k > 0 ? plan->transfer_count + 1 - stride : -1;
            int edge = dl_plan_add_chunk(plan, from, to, t->bytes / t->chunks, before);
            dl_plan_order(plan, after, edge - 1);
            if (k == t->chunks - 1) dl_plan_order(plan, edge, join);
        }
    }
    for (int k = 0; k < t->chunks; k++) {
        for (int i = 1; i < n; i++) {
            int parent = parent_of(i, n), edge = first + k * stride + 2 * (i - 1);
            if (parent == 0) continue;
            int next = first + k * stride + 2 * (parent - 1);
            dl_plan_order(plan, up ? edge : next, up ? next - 1 : edge - 1);
        }
    }
}

/* Both trees up, then both down. */
static void plan_tree(dl_plan *plan, const dl_collective_config *config)
{
    bool all = config->kind == DL_ALLREDUCE;
    int n = config->rank_count, count = all ? 2 : 1;
    tree trees[2];
    trees[0] = all ? make_tree(config, 0, 1, config->bytes / 2)
                   : make_tree(config, config->root, 1, config->bytes);
    /* mirrored; with an odd number of ranks turned by one, so that inner ranks become leaves (of
     * three, mirrored trees have no edge in common) */
    trees[1] = n % 2 == 0 || n == 3 ? make_tree(config, n - 1, -1, config->bytes / 2)
                                    : make_tree(config, 1, 1, config->bytes / 2);
    void (*pass)(dl_plan *, const tree *, bool, int, int) =
        config->fidelity == DL_FIDELITY_PHASE ? tree_as_phase : tree_as_chunks;
    int top = -1;
    if (config->kind != DL_BROADCAST) {
        top = dl_plan_join(plan);
        for (int i = 0; i < count; i++)
            pass(plan, &trees[i], true, -1, top);
    }
    if (config->kind == DL_REDUCE) return;
    int end = dl_plan_join(plan);
    for (int i = 0; i < count; i++)
        pass(plan, &trees[i], false, top, end);
}

const dl_collective_algorithm dl_collective_tree = {"tree", supports, plan_tree, NULL};
