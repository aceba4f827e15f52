/* All-reduce with sums in the NVSwitch of a node (NVLink SHARP; "NVLS" in NCCL).
 *
 * In one node (`nvls`), each of n ranks owns a part S / n of the bytes S. It reads the sum of its
 * part from the switch, which reads the part of every rank (multimem.ld_reduce), and writes it to
 * the switch, which broadcasts it to all ranks (multimem.st):
 *
 *                          out of a GPU             into a GPU
 *   sums                   S (all parts)            S / n (its own part, summed)
 *   broadcast              S / n                    S
 *   total                  S (1 + 1/n)              S (1 + 1/n)        a ring: 2 S (1 - 1/n)
 *
 * so that with many ranks half of a ring's bytes cross each link (NCCL's author gives the same
 * counts: github.com/NVIDIA/nccl, thread 1083, and algbw = busbw (n+1)/(n-1) in nccl-tests, thread
 * 212). Pieces of p bytes are pipelined, one in each of the two stages; the total is
 *
 *   2 a + S (1 + 1/n) / B + p (1 - 1/n) / B           a = latency and hop time from GPU to GPU
 *
 * The links' rate B is the machine's times sum_frac.
 *
 * Over several nodes (`nvls_tree`; NCCL since 2.18, without sums in the network), rank i of all
 * nodes sends its part, summed in its node, up and down two binary trees, half in each, before it
 * is broadcast: a pipeline of four stages. With N nodes and a port of R bytes per second for each
 * rank, whose busiest node sends w S / n and receives as much (w = 1 for two nodes, 2 for more), P
 * pieces take 2 a + 2 p / B and, whichever is longest (pieces_ns),
 *
 *   2 h (b + c) + (P - 1) p / B + ...    the switches
 *   2 h (b + c) + (P - 1) c              edges of one level of the trees
 *   b + P w p / (n R)                    the ports
 *
 * with b the latency and hop time between nodes, h the trees' height, c the time of a piece over an
 * edge. */
#include <math.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "sim/collective/trees.h"

/* A piece is one chunk per rank and channel: NCCL_NVLS_CHUNKSIZE (default 128 KiB) and
 * NVLS_NCHANNELS_SM90 of NCCL's src/transport/nvls.cc. */
#define CHUNK_BYTES 131072.0
#define CHANNELS 16

static bool supports(const dl_collective_config *config)
{
    return config->kind == DL_ALLREDUCE &&
           dl_ranks_per_node(config->ranks, config->rank_count) == config->rank_count;
}

static const dl_node_links *node_of(const dl_links *links, dl_place rank)
{
    return dl_links_node(links, rank.node);
}

static bool available(const dl_links *links, const dl_collective_config *config)
{
    for (int r = 0; r < config->rank_count; r++) {
        const dl_node_kind *node = node_of(links, config->ranks[r])->kind;
        if (node->nvswitch_link < 0 || !node->nvswitch_sum_frac.known) return false;
    }
    return true;
}

/* Summing rate of the slowest NVSwitch of the ranks' nodes, in bytes per second. */
static double sum_rate(const dl_links *links, const dl_collective_config *config)
{
    double least = INFINITY;
    for (int r = 0; r < config->rank_count; r++) {
        const dl_place rank = config->ranks[r];
        const dl_node_links *node = node_of(links, rank);
        least = fmin(least, node->capacity[node->nvswitch[rank.index].up] *
                                node->kind->nvswitch_sum_frac.value);
    }
    return least;
}

/* Adds one stage, or both together: `out` bytes from each rank and `in` bytes to it. */
static void add_stage(dl_plan *plan, const dl_collective_config *config, double out, double in,
                      int after, int join)
{
    const dl_links *links = plan->links;
    for (int r = 0; r < config->rank_count; r += plan->fold != NULL ? plan->fold->lines : 1) {
        const dl_place *rank = &config->ranks[r];
        const dl_node_links *node = node_of(links, *rank);
        const double scale = plan->costs.bandwidth_frac / node->kind->nvswitch_sum_frac.value;
        const dl_edge *edge = &node->nvswitch[rank->index];
        int base = rank->node * links->per_node, both = edge->both >= 0 ? base + edge->both : -1;
        int up = dl_plan_add_link(plan, base + edge->up, both, out * scale);
        int down = dl_plan_add_link(plan, base + edge->down, both, in * scale);
        dl_plan_order(plan, after, up);
        dl_plan_order(plan, after, down);
        dl_plan_order(plan, up, join);
        dl_plan_order(plan, down, join);
    }
}

/* Time in ns of the first piece's sums beyond its share of the steady flow. */
static double fill_ns(const dl_plan *plan, const dl_collective_config *config, double piece)
{
    const double rate = sum_rate(plan->links, config);
    return piece * (1 - 1.0 / config->rank_count) / rate * 1e9;
}

static void plan_as_phase(dl_plan *plan, const dl_collective_config *config, double piece,
                          double hop_ns)
{
    double all = config->bytes * (1 + 1.0 / config->rank_count);
    int start = dl_plan_wait(plan, 2 * hop_ns + fill_ns(plan, config, piece));
    int end = dl_plan_join(plan);
    add_stage(plan, config, all, all, start, end);
}

/* The sums of piece k follow those of piece k - 1; its broadcast follows a hop later, after that of
 * piece k - 1. */
static void plan_as_chunks(dl_plan *plan, const dl_collective_config *config, double piece,
                           int pieces, double hop_ns)
{
    double part = piece / config->rank_count;
    int summed = dl_plan_wait(plan, hop_ns), handed = -1;
    for (int k = 0; k < pieces; k++) {
        int sums = dl_plan_join(plan), hop = dl_plan_wait(plan, hop_ns), out = dl_plan_join(plan);
        add_stage(plan, config, piece, part, summed, sums);
        dl_plan_order(plan, sums, hop);
        int start = dl_plan_join(plan);
        dl_plan_order(plan, hop, start);
        dl_plan_order(plan, handed, start);
        add_stage(plan, config, part, piece, start, out);
        summed = sums;
        handed = out;
    }
}

static void plan_nvls(dl_plan *plan, const dl_collective_config *config)
{
    double largest = CHUNK_BYTES * CHANNELS * config->rank_count;
    double wanted = fmax(1, ceil(config->bytes / largest));
    int pieces = wanted > DL_CHUNKS_MAX ? DL_CHUNKS_MAX : (int)wanted;
    double hop_ns = dl_plan_hop_ns(plan, config->ranks[0], config->ranks[1]);
    double piece = config->bytes / pieces;
    if (config->fidelity == DL_FIDELITY_PHASE) {
        plan_as_phase(plan, config, piece, hop_ns);
    } else {
        plan_as_chunks(plan, config, piece, pieces, hop_ns);
    }
}

/* --- over several nodes --------------------------------------------------------------------- */

/* Bytes per piece from NCCL's chunks (calcCollChunking in src/enqueue.cc), which are smaller for
 * four or more nodes, and for vectors with few chunks. */
static double tree_piece_bytes(double bytes, int per_node, int nodes)
{
    double chunk = nodes >= 4 ? CHUNK_BYTES / 2 : CHUNK_BYTES;
    const double at_once = CHANNELS * (double)per_node;
    if (bytes < 4 * at_once * chunk) chunk = fmin(chunk, CHUNK_BYTES / 2);
    if (bytes < at_once * chunk) chunk = fmin(chunk, CHUNK_BYTES / 4);
    return chunk * at_once;
}

/* Two trees over the nodes for each rank of a node, or for the first of folded ones. */
typedef struct node_trees {
    int count, nodes, per_node, pieces;
    dl_tree *trees; /* [count] */
} node_trees;

static node_trees make_trees(const dl_collective_config *config, int per_node, bool folded)
{
    const int nodes = config->rank_count / per_node;
    const double wanted =
        fmax(1, ceil(config->bytes / tree_piece_bytes(config->bytes, per_node, nodes)));
    node_trees all = {.count = folded ? 2 : 2 * per_node,
                      .nodes = nodes,
                      .per_node = per_node,
                      .pieces = wanted > DL_CHUNKS_MAX ? DL_CHUNKS_MAX : (int)wanted};
    all.trees = dl_calloc((size_t)all.count, sizeof *all.trees, "trees between switches");
    DL_AUTOFREE dl_place *column = dl_calloc((size_t)nodes, sizeof *column, "ranks of one number");
    for (int t = 0; t < all.count; t++) {
        for (int node = 0; node < nodes; node++)
            column[node] = config->ranks[node * per_node + t / 2];
        all.trees[t] = dl_tree_over_nodes(column, nodes, t % 2 == 1, config->bytes / (2 * per_node),
                                          all.pieces);
    }
    return all;
}

static void free_trees(node_trees *all)
{
    for (int t = 0; t < all->count; t++)
        dl_tree_free(&all->trees[t]);
    free(all->trees);
}

/* Adds the time of a piece on each link, link_ns[links], for every second tree starting with
 * `first`, on the way up or down. */
static void load_links(const dl_plan *plan, const node_trees *all, int first, bool up,
                       double *link_ns)
{
    for (int e = 0; e < all->count * all->nodes; e++) {
        const dl_tree *t = &all->trees[e / all->nodes];
        if (e % all->nodes == 0 || e / all->nodes % 2 != first) continue;
        dl_place from, to;
        dl_route route;
        dl_tree_edge(t, up, e % all->nodes, &from, &to);
        dl_plan_route(plan, from, to, &route);
        if (plan->fold != NULL) dl_fold_route(plan->fold, &route);
        for (int l = 0; l < route.count; l++) {
            const double rate =
                dl_plan_frac(plan, &route) * dl_links_capacity(plan->links, route.links[l]);
            link_ns[route.links[l]] += route.uses[l] * t->bytes / t->chunks / rate * 1e9;
        }
    }
}

/* Time in ns of a piece from the farthest leaf of a tree to its root while all trees send up. */
static double way_up_ns(const dl_plan *plan, const dl_tree *t, const double *up_ns)
{
    DL_AUTOFREE double *edge_ns = dl_calloc((size_t)t->size, sizeof *edge_ns, "edges of a tree");
    double longest_ns = 0;
    for (int i = 1; i < t->size; i++) {
        dl_place from, to;
        dl_route route;
        dl_tree_edge(t, true, i, &from, &to);
        dl_plan_route(plan, from, to, &route);
        if (plan->fold != NULL) dl_fold_route(plan->fold, &route);
        for (int l = 0; l < route.count; l++)
            edge_ns[i] = fmax(edge_ns[i], up_ns[route.links[l]]);
        edge_ns[i] += dl_plan_hop_on(plan, &route);
    }
    for (int i = 1; i < t->size; i++) {
        double way_ns = 0;
        for (int at = i; at != 0; at = t->parents[at])
            way_ns += edge_ns[at];
        longest_ns = fmax(longest_ns, way_ns);
    }
    return longest_ns;
}

/* Times of a piece between the nodes: its way up while all first or all second trees send;
 * latency and hop time of one edge; its time on the busiest link; on the busiest link of one
 * level's edges. */
typedef struct piece_times {
    double up_ns, hop_ns, busiest_ns, level_ns;
} piece_times;

/* The first trees of all ranks send simultaneously. The second trees have their levels at other
 * nodes, except with three nodes, whose trees share an edge. */
static piece_times measure_piece(const dl_plan *plan, const node_trees *all)
{
    const size_t links = (size_t)plan->links->count;
    DL_AUTOFREE double *both_ns = dl_calloc(links, sizeof *both_ns, "times of links");
    piece_times times = {
        .hop_ns = dl_plan_hop_ns(plan, all->trees[0].places[0], all->trees[0].places[1])};
    for (int second = 0; second < 2; second++) {
        DL_AUTOFREE double *level_ns = dl_calloc(links, sizeof *level_ns, "times of links");
        load_links(plan, all, second, true, level_ns);
        for (size_t l = 0; l < links; l++)
            both_ns[l] += level_ns[l];
        if (all->nodes == 3) load_links(plan, all, 1 - second, true, level_ns);
        for (int t = second; t < all->count; t += 2)
            times.up_ns = fmax(times.up_ns, way_up_ns(plan, &all->trees[t], level_ns));
        for (size_t l = 0; l < links; l++)
            times.level_ns = fmax(times.level_ns, level_ns[l]);
        load_links(plan, all, second, false, both_ns);
    }
    for (size_t l = 0; l < links; l++)
        times.busiest_ns = fmax(times.busiest_ns, both_ns[l]);
    return times;
}

/* Time in ns of all pieces. The switches take switch_ns to sum a piece and as long to broadcast it.
 * They are the limit if all sums run in sequence, broadcasts follow once the first piece has come
 * down, which meets the second on its way up, and the remaining sums get their share (a rank's
 * part) of the links. The network is the limit if its busiest link, or the edges of one level of
 * the trees, send all the time. */
static double pieces_ns(const node_trees *all, const piece_times *t, double switch_ns)
{
    const double more = all->pieces - 1, way_ns = 2 * t->up_ns;
    double meets_ns = fmin(switch_ns, way_ns - switch_ns) - t->hop_ns;
    meets_ns = more > 3 ? t->level_ns : more > 0 ? fmax(0, fmin(meets_ns, t->level_ns)) : 0;
    const double left = fmax(0, more - way_ns / switch_ns);
    const double by_switch_ns =
        way_ns + meets_ns + more * switch_ns + left * switch_ns / all->per_node;
    const double by_network_ns =
        way_ns + fmin(more, 1) * t->level_ns + fmax(0, more - 1) * t->busiest_ns;
    const double by_link_ns = t->hop_ns + all->pieces * t->busiest_ns;
    return 2 * switch_ns + fmax(by_switch_ns, fmax(by_network_ns, by_link_ns));
}

/* Adds the concurrent flows of all stages, preceded by the part of the pieces' time that exceeds
 * them. */
static void trees_as_phase(dl_plan *plan, const dl_collective_config *config, const node_trees *all)
{
    const double parts = 1 + 1.0 / all->per_node;
    const double rate = sum_rate(plan->links, config);
    const double switch_ns = config->bytes / all->pieces / rate * 1e9;
    double lead_ns = 2 * dl_plan_hop_ns(plan, config->ranks[0], config->ranks[1]);
    if (!plan->counts_only && config->bytes > 0) {
        const piece_times times = measure_piece(plan, all);
        lead_ns += pieces_ns(all, &times, switch_ns) -
                   all->pieces * fmax(parts * switch_ns, times.busiest_ns);
    }
    const int start = dl_plan_wait(plan, fmax(0, lead_ns));
    const int end = dl_plan_join(plan);
    add_stage(plan, config, config->bytes * parts, config->bytes * parts, start, end);
    for (int e = 0; e < 2 * all->count * all->nodes; e++) {
        const dl_tree *t = &all->trees[e / 2 / all->nodes];
        dl_place from, to;
        if (e / 2 % all->nodes == 0) continue;
        dl_tree_edge(t, e % 2 == 0, e / 2 % all->nodes, &from, &to);
        const int transfer = dl_plan_add(plan, from, to, t->bytes, 0, 0);
        dl_plan_order(plan, start, transfer);
        dl_plan_order(plan, transfer, end);
    }
}

/* Adds one piece's transfers over the edges of a tree in one direction, before `end`. An edge waits
 * for `start`, for the preceding edges on the way, and for the previous piece's transfer, edges[i]
 * (-1: none), which is replaced by the new one. */
static void piece_over_tree(dl_plan *plan, const dl_tree *t, bool up, int start, int end,
                            int *edges)
{
    DL_AUTOFREE int *before = dl_calloc((size_t)t->size, sizeof *before, "edges of a tree");
    for (int i = 1; i < t->size; i++)
        before[i] = edges[i];
    for (int i = 1; i < t->size; i++) {
        dl_place from, to;
        dl_tree_edge(t, up, i, &from, &to);
        edges[i] = dl_plan_add_chunk(plan, from, to, t->bytes / t->chunks, before[i]);
        dl_plan_order(plan, start, edges[i] - 1);
        dl_plan_order(plan, edges[i], end);
    }
    for (int i = 1; i < t->size; i++) {
        const int parent = t->parents[i];
        if (parent == 0) continue;
        dl_plan_order(plan, edges[up ? i : parent], edges[up ? parent : i] - 1);
    }
}

/* A piece moves up when all nodes have summed it, moves down when it is at all roots, and is
 * broadcast when it has reached all nodes. Nodes are equal, so these waits delay nothing. */
static void trees_as_chunks(dl_plan *plan, const dl_collective_config *config,
                            const node_trees *all)
{
    const double piece = config->bytes / all->pieces, part = piece / all->per_node;
    const double hop_ns = dl_plan_hop_ns(plan, config->ranks[0], config->ranks[1]);
    const size_t edge_count = 2 * (size_t)all->count * (size_t)all->nodes;
    DL_AUTOFREE int *edges = dl_calloc(edge_count, sizeof *edges, "edges of trees");
    int summed = dl_plan_wait(plan, hop_ns), handed = -1;
    for (size_t e = 0; e < edge_count; e++)
        edges[e] = -1;
    for (int k = 0; k < all->pieces; k++) {
        const int sums = dl_plan_join(plan), top = dl_plan_join(plan), down = dl_plan_join(plan);
        const int hop = dl_plan_wait(plan, hop_ns), out = dl_plan_join(plan);
        add_stage(plan, config, piece, part, summed, sums);
        for (int t = 0; t < all->count; t++) {
            int *of_tree = edges + 2 * t * all->nodes;
            piece_over_tree(plan, &all->trees[t], true, sums, top, of_tree);
            piece_over_tree(plan, &all->trees[t], false, top, down, of_tree + all->nodes);
        }
        dl_plan_order(plan, down, hop);
        const int start = dl_plan_join(plan);
        dl_plan_order(plan, hop, start);
        dl_plan_order(plan, handed, start);
        add_stage(plan, config, part, piece, start, out);
        summed = sums;
        handed = out;
    }
}

/* Folds the ranks of a node into the first one. A rank's routes: to the switch and back, and to the
 * same rank of another node and back. NULL if the ranks differ. */
static dl_fold *fold_ranks(const dl_plan *plan, const dl_collective_config *config, int per_node)
{
    enum { KINDS = 4 };
    const dl_place *ranks = config->ranks;
    for (int r = 0; r < config->rank_count; r++)
        if (ranks[r].index != ranks[r % per_node].index) return NULL;
    if (plan->is_whole) return NULL;
    DL_AUTOFREE dl_route *routes =
        dl_calloc((size_t)KINDS * (size_t)per_node, sizeof *routes, "ways of ranks");
    for (int r = 0; r < per_node; r++) {
        const dl_edge *edge = &node_of(plan->links, ranks[r])->nvswitch[ranks[r].index];
        const int base = ranks[r].node * plan->links->per_node, count = edge->both >= 0 ? 2 : 1;
        routes[r] = (dl_route){
            .count = count, .links = {base + edge->up, base + edge->both}, .uses = {1, 1}};
        routes[per_node + r] = (dl_route){
            .count = count, .links = {base + edge->down, base + edge->both}, .uses = {1, 1}};
        dl_plan_route(plan, ranks[r], ranks[per_node + r], &routes[2 * per_node + r]);
        dl_plan_route(plan, ranks[per_node + r], ranks[r], &routes[3 * per_node + r]);
    }
    return dl_fold_make(plan->links, routes, KINDS, per_node);
}

static void plan_nvls_tree(dl_plan *plan, const dl_collective_config *config)
{
    const int per_node = dl_ranks_per_node(config->ranks, config->rank_count);
    plan->fold = fold_ranks(plan, config, per_node);
    node_trees all = make_trees(config, per_node, plan->fold != NULL);
    if (config->fidelity == DL_FIDELITY_PHASE) {
        trees_as_phase(plan, config, &all);
    } else {
        trees_as_chunks(plan, config, &all);
    }
    free_trees(&all);
}

/* As in NCCL's model, only with protocol Simple. */
const dl_collective_algorithm dl_collective_nvls = {"nvls",    supports, plan_nvls,
                                                    available, NULL,     true};
const dl_collective_algorithm dl_collective_nvls_tree = {
    "nvls_tree", dl_allreduces_over_nodes, plan_nvls_tree, available, NULL, true};
