/* Pipelined binary trees: an all-reduce uses two trees, each for half of the bytes, so that an
 * inner rank of one is a leaf of the other and both directions of all links are in use. "tree" is
 * over the ranks, as in MPI libraries; "node_tree", as in NCCL, is over nodes: two trees of nodes
 * for each NIC, and a chain through each node; for one node these are two chains. */
#include <math.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "sim/collective/trees.h"

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

static dl_tree allocate(int size, double bytes, int chunks)
{
    const size_t n = (size_t)size;
    return (dl_tree){.size = size,
                     .places = dl_calloc(n, sizeof(dl_place), "places of a tree"),
                     .parents = dl_calloc(n, sizeof(int), "parents in a tree"),
                     .bytes = bytes,
                     .chunks = chunks};
}

void dl_tree_free(dl_tree *t)
{
    free(t->places);
    free(t->parents);
    free(t->below_ns);
    free(t->above_ns);
    *t = (dl_tree){0};
}

/* Rotation and mirroring: maps position i to one of n. */
typedef struct turn {
    int offset, sign;
} turn;

static int turned(turn by, int i, int n)
{
    return ((by.offset + by.sign * i) % n + n) % n;
}

/* Returns the turn from the first tree over n places to the second: mirrored or, if n is odd,
 * rotated by one, so that inner ranks become leaves. Three ranks are mirrored, as a rotation would
 * use an edge twice in the same direction. */
static turn second_turn(int n)
{
    return n % 2 == 0 || n == 3 ? (turn){n - 1, -1} : (turn){1, 1};
}

/* A binary tree over all ranks. */
static dl_tree tree_of_ranks(const dl_collective_config *config, turn by, double bytes)
{
    dl_tree t = allocate(config->rank_count, bytes, dl_chunk_count(bytes, config->chunk_bytes));
    for (int i = 0; i < t.size; i++) {
        t.places[i] = config->ranks[turned(by, i, t.size)];
        t.parents[i] = parent_of(i, t.size);
    }
    return t;
}

static const turn straight = {0, 1};

/* Sets firsts[i] to the start of the i-th node's ranks; returns the number of nodes. */
static int find_nodes(const dl_place *order, int size, int *firsts)
{
    int nodes = 0;
    for (int i = 0; i < size; i++)
        if (i == 0 || order[i].node != order[i - 1].node) firsts[nodes++] = i;
    return nodes;
}

dl_tree dl_tree_over_nodes(const dl_place *order, int size, bool second, double bytes, int chunks)
{
    dl_tree t = allocate(size, bytes, chunks);
    DL_AUTOFREE int *firsts = dl_calloc((size_t)size, sizeof *firsts, "nodes of a tree");
    /* places of the nodes' first ranks */
    DL_AUTOFREE int *heads = dl_calloc((size_t)size, sizeof *heads, "nodes of a tree");
    const int nodes = find_nodes(order, size, firsts);
    const turn by = second ? second_turn(nodes) : straight;
    int place = 0;
    for (int at = 0; at < nodes; at++) {
        const int node = turned(by, at, nodes);
        const int end = node + 1 < nodes ? firsts[node + 1] : size;
        heads[at] = place;
        for (int i = firsts[node]; i < end; i++, place++) {
            t.places[place] = order[i];
            t.parents[place] = place - 1;
        }
    }
    for (int at = 0; at < nodes; at++) {
        const int parent = parent_of(at, nodes);
        t.parents[heads[at]] = parent < 0 ? -1 : heads[parent];
    }
    return t;
}

void dl_tree_edge(const dl_tree *t, bool up, int i, dl_place *from, dl_place *to)
{
    dl_place child = t->places[i], parent = t->places[t->parents[i]];
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

/* Places grouped by parent, [size + 1] and [size]: the children of place i are children[firsts[i]]
 * to children[firsts[i + 1] - 1], ascending. */
typedef struct family {
    int *firsts, *children;
} family;

static family find_children(const dl_tree *t)
{
    const size_t n = (size_t)t->size;
    const family f = {dl_calloc(n + 1, sizeof *f.firsts, "children in a tree"),
                      dl_calloc(n, sizeof *f.children, "children in a tree")};
    for (int i = 1; i < t->size; i++)
        f.firsts[t->parents[i]]++;
    for (int i = 1; i <= t->size; i++)
        f.firsts[i] += f.firsts[i - 1];
    for (int i = t->size - 1; i > 0; i--)
        f.children[--f.firsts[t->parents[i]]] = i;
    return f;
}

/* Sets edge_ns of the edges into `parent`: a hop, and the time of one chunk, concurrent with those
 * of the siblings whose edges share a link with its own. routes[] has room for all children. */
static void measure_edges(const dl_plan *plan, const dl_tree *t, const family *f, int parent,
                          dl_route *routes, double *edge_ns)
{
    const int *children = f->children + f->firsts[parent];
    const int count = f->firsts[parent + 1] - f->firsts[parent];
    for (int c = 0; c < count; c++)
        dl_plan_route(plan, t->places[children[c]], t->places[parent], &routes[c]);
    for (int c = 0; c < count; c++) {
        int at_once = 1;
        for (int other = 0; other < count; other++)
            at_once += other != c && share_a_link(&routes[c], &routes[other]);
        edge_ns[children[c]] =
            dl_plan_hop_on(plan, &routes[c]) +
            at_once * t->bytes / t->chunks / dl_plan_rate(plan, &routes[c]) * 1e9;
    }
}

/* Computes a chunk's time outside edge i: t->below_ns[i] for the slowest path below the edge,
 * t->above_ns[i] from the edge to the root; 0 if the plan only counts transfers. */
static void measure_ways(const dl_plan *plan, dl_tree *t)
{
    const size_t n = (size_t)t->size;
    if (t->below_ns != NULL) return;
    t->below_ns = dl_calloc(n, sizeof *t->below_ns, "ways in a tree");
    t->above_ns = dl_calloc(n, sizeof *t->above_ns, "ways in a tree");
    if (plan->counts_only) return;
    DL_AUTOFREE double *edge_ns = dl_calloc(n, sizeof *edge_ns, "edges of a tree");
    family f = find_children(t);
    int most = 0;
    for (int i = 0; i < t->size; i++)
        if (f.firsts[i + 1] - f.firsts[i] > most) most = f.firsts[i + 1] - f.firsts[i];
    DL_AUTOFREE dl_route *routes = dl_calloc((size_t)most, sizeof *routes, "edges of a place");
    for (int i = 0; i < t->size; i++)
        measure_edges(plan, t, &f, i, routes, edge_ns);
    for (int i = 1; i < t->size; i++) {
        double way_ns = 0;
        for (int at = i; at != 0; at = t->parents[at]) {
            t->below_ns[at] = fmax(t->below_ns[at], way_ns);
            way_ns += edge_ns[at];
        }
        t->above_ns[i] = way_ns - edge_ns[i];
    }
    free(f.firsts);
    free(f.children);
}

/* Adds one flow of all bytes over each edge, between `after` and `join` as in rounds of a ring. It
 * starts when the first chunk arrives; after its end the last chunk continues to the end of its
 * way. */
static void tree_as_phase(dl_plan *plan, dl_tree *t, bool up, int after, int join)
{
    measure_ways(plan, t);
    const double *before_ns = up ? t->below_ns : t->above_ns;
    const double *after_ns = up ? t->above_ns : t->below_ns;
    for (int i = 1; i < t->size; i++) {
        dl_place from, to;
        dl_tree_edge(t, up, i, &from, &to);
        int edge = dl_plan_add(plan, from, to, t->bytes, 1, before_ns[i]);
        int rest = dl_plan_wait(plan, after_ns[i]);
        dl_plan_order(plan, after, edge);
        dl_plan_order(plan, edge, rest);
        dl_plan_order(plan, rest, join);
    }
}

/* Adds all chunks of one direction: the bytes of chunk k over edge i are transfer first + 2 (k
 * (n-1) + i - 1), preceded by its hop. Up, chunk k waits for that of both children; down, for that
 * of the parent. */
static void tree_as_chunks(dl_plan *plan, dl_tree *t, bool up, int after, int join)
{
    int n = t->size, stride = 2 * (n - 1), first = plan->transfer_count + 1;
    for (int k = 0; k < t->chunks; k++) {
        for (int i = 1; i < n; i++) {
            dl_place from, to;
            dl_tree_edge(t, up, i, &from, &to);
            int before = k > 0 ? plan->transfer_count + 1 - stride : -1;
            int edge = dl_plan_add_chunk(plan, from, to, t->bytes / t->chunks, before);
            dl_plan_order(plan, after, edge - 1);
            if (k == t->chunks - 1) dl_plan_order(plan, edge, join);
        }
    }
    for (int k = 0; k < t->chunks; k++) {
        for (int i = 1; i < n; i++) {
            int parent = t->parents[i], edge = first + k * stride + 2 * (i - 1);
            if (parent == 0) continue;
            int next = first + k * stride + 2 * (parent - 1);
            dl_plan_order(plan, up ? edge : next, up ? next - 1 : edge - 1);
        }
    }
}

/* Adds passes up all trees, except for a broadcast, then down all trees, except for a reduce. */
static void pass_trees(dl_plan *plan, const dl_collective_config *config, dl_tree *trees, int count)
{
    int top = -1;
    void (*pass)(dl_plan *, dl_tree *, bool, int, int) =
        config->fidelity == DL_FIDELITY_PHASE ? tree_as_phase : tree_as_chunks;
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

static void plan_tree(dl_plan *plan, const dl_collective_config *config)
{
    const bool two = config->kind == DL_ALLREDUCE;
    const double bytes = config->bytes / (two ? 2 : 1);
    dl_tree trees[2] = {tree_of_ranks(config, two ? straight : (turn){config->root, 1}, bytes)};
    if (two) trees[1] = tree_of_ranks(config, second_turn(config->rank_count), bytes);
    pass_trees(plan, config, trees, two ? 2 : 1);
    dl_tree_free(&trees[0]);
    if (two) dl_tree_free(&trees[1]);
}

/* --- over nodes ----------------------------------------------------------------------------- */

/* All-reduce over nodes; the ranks of each node must be consecutive. */
static bool supports_nodes(const dl_collective_config *config)
{
    return config->kind == DL_ALLREDUCE &&
           dl_ranks_stand_by_nodes(config->ranks, config->rank_count);
}

/* If this is false, node_tree consists of chains (one node) or is the tree over ranks (one rank per
 * node). Over nodes with unequal numbers of ranks it is used only by name, or if NCCL's model
 * chooses it. */
bool dl_allreduces_over_nodes(const dl_collective_config *config)
{
    const int per_node = dl_ranks_per_node(config->ranks, config->rank_count);
    return config->kind == DL_ALLREDUCE && per_node > 1 && per_node < config->rank_count;
}

/* Folds the rings into the first one. A ring's routes: along its ranks of a node, and between its
 * first ranks of two nodes. NULL if the rings differ. */
static dl_fold *fold_rings(const dl_plan *plan, const dl_rings *rings)
{
    const int n = rings->size, lines = rings->count, per_node = dl_ranks_per_node(rings->order, n);
    if (plan->is_whole || lines < 2 || per_node == 0 || per_node == n) return NULL;
    for (int i = 0; i < lines * n; i++)
        if (rings->order[i].index != rings->order[i / n * n + i % n % per_node].index) return NULL;
    const int kinds = 2 * per_node;
    DL_AUTOFREE dl_route *routes =
        dl_calloc((size_t)kinds * (size_t)lines, sizeof *routes, "ways of rings");
    for (int r = 0; r < lines; r++) {
        const dl_place *ranks = rings->order + r * n;
        for (int i = 0; i < per_node; i++) {
            const dl_place to = i == 0 ? ranks[per_node] : ranks[i - 1];
            dl_plan_route(plan, ranks[i], to, &routes[2 * i * lines + r]);
            dl_plan_route(plan, to, ranks[i], &routes[(2 * i + 1) * lines + r]);
        }
    }
    return dl_fold_make(plan->links, routes, kinds, lines);
}

/* Adds two trees for each ring, i.e. for each NIC; if folded, for the first ring only. */
static void plan_node_tree(dl_plan *plan, const dl_collective_config *config)
{
    const int n = config->rank_count;
    DL_SCOPED(dl_rings) rings;
    dl_rings_init(&rings, plan->links, config->ranks, n);
    const double bytes = config->bytes / (2 * rings.count);
    plan->fold = fold_rings(plan, &rings);
    const int count = plan->fold != NULL ? 2 : 2 * rings.count;
    const int chunks = dl_chunk_count(bytes, config->chunk_bytes);
    DL_AUTOFREE dl_tree *trees = dl_calloc((size_t)count, sizeof *trees, "trees");
    for (int i = 0; i < count; i++) {
        trees[i] = dl_tree_over_nodes(rings.order + i / 2 * n, n, i % 2 == 1, bytes, chunks);
    }
    pass_trees(plan, config, trees, count);
    for (int i = 0; i < count; i++)
        dl_tree_free(&trees[i]);
}

static bool is_automatic(const dl_collective_config *config)
{
    return !dl_allreduces_over_nodes(config);
}

const dl_collective_algorithm dl_collective_tree = {"tree", supports,     plan_tree,
                                                    NULL,   is_automatic, false};
const dl_collective_algorithm dl_collective_node_tree = {
    "node_tree", supports_nodes, plan_node_tree, NULL, dl_allreduces_over_nodes, false};
