/* Rings: the orders in which ranks form them, and the algorithms that use them. */
#include "sim/collective/rings.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"

/* --- orders --------------------------------------------------------------------------------- */

#define SEARCH_MAX 16        /* largest number of ranks for which cycles are searched */
#define SEARCH_STEPS 2000000 /* limit; the search then returns the best result so far */
#define CYCLES_MAX 32

/* Search for Hamiltonian cycles that use disjoint lanes. */
typedef struct search {
    int size, goal, steps;
    int lanes[SEARCH_MAX][SEARCH_MAX]; /* number of free lanes from one rank to another */
    int found, best;
    int cycle[CYCLES_MAX][SEARCH_MAX]; /* the current set of cycles */
    int best_cycle[CYCLES_MAX][SEARCH_MAX];
} search;

static bool extend(search *s, int place, unsigned used);

/* Closes a cycle: keeps the set if it is the largest so far, and looks for the next cycle. */
static bool close_cycle(search *s)
{
    s->found++;
    if (s->found > s->best) {
        s->best = s->found;
        memcpy(s->best_cycle, s->cycle, sizeof s->cycle);
    }
    bool finished = s->found == s->goal;
    if (!finished) {
        s->cycle[s->found][0] = 0;
        finished = extend(s, 1, 1);
    }
    s->found--;
    return finished;
}

/* Tries all ranks at `place` of the cycle; true when the search is over. */
static bool extend(search *s, int place, unsigned used)
{
    if (++s->steps > SEARCH_STEPS) return true;
    int *cycle = s->cycle[s->found], last = cycle[place - 1];
    if (place == s->size) {
        if (s->lanes[last][0] == 0) return false;
        s->lanes[last][0]--;
        s->lanes[0][last]--;
        bool finished = close_cycle(s);
        s->lanes[last][0]++;
        s->lanes[0][last]++;
        return finished;
    }
    for (int next = 1; next < s->size; next++) {
        if (used & 1u << next || s->lanes[last][next] == 0) continue;
        cycle[place] = next;
        s->lanes[last][next]--;
        s->lanes[next][last]--;
        bool finished = extend(s, place + 1, used | 1u << next);
        s->lanes[last][next]++;
        s->lanes[next][last]++;
        if (finished) return true;
    }
    return false;
}

/* Counts the lanes between the ranks; the rank with the fewest lanes sets the goal. */
static void count_lanes(search *s, const dl_node_kind *n, const dl_place *ranks, int count)
{
    s->size = count;
    s->goal = CYCLES_MAX;
    for (int a = 0; a < count; a++) {
        int sum = 0;
        for (int b = 0; b < count; b++) {
            const int nvlink = dl_machine_nvlink(n, ranks[a].index, ranks[b].index);
            if (nvlink >= 0) s->lanes[a][b] = n->nvlinks[nvlink].lanes;
            sum += s->lanes[a][b];
        }
        if (sum / 2 < s->goal) s->goal = sum / 2;
    }
}

static void allocate(dl_rings *rings, int count, int size)
{
    rings->count = count;
    rings->size = size;
    rings->order = dl_calloc((size_t)count * (size_t)size, sizeof(dl_place), "rings");
}

/* Makes two rings of each cycle, one per direction; false if there is no cycle. */
static bool find_cycles(dl_rings *rings, const dl_links *links, const dl_place *ranks, int count)
{
    const dl_node_kind *node = dl_machine_node(links->machine, ranks[0].node);
    if (count < 3 || count > SEARCH_MAX || node->nvlink_count == 0) return false;
    DL_AUTOFREE search *s = dl_calloc(1, sizeof *s, "search of rings");
    count_lanes(s, node, ranks, count);
    if (s->goal > 0) (void)extend(s, 1, 1);
    if (s->best > 0) allocate(rings, 2 * s->best, count);
    for (int c = 0; c < s->best; c++) {
        for (int i = 0; i < count; i++) {
            rings->order[2 * c * count + i] = ranks[s->best_cycle[c][i]];
            rings->order[(2 * c + 1) * count + i] = ranks[s->best_cycle[c][count - 1 - i]];
        }
    }
    return s->best > 0;
}

int dl_ranks_per_node(const dl_place *ranks, int count)
{
    int per_node = 1;
    while (per_node < count && ranks[per_node].node == ranks[0].node)
        per_node++;
    for (int i = 0; i < count; i++) {
        bool first = i % per_node == 0;
        if (!first && ranks[i].node != ranks[i - 1].node) return 0;
        if (first && i > 0 && ranks[i].node == ranks[i - 1].node) return 0;
    }
    return count % per_node == 0 ? per_node : 0;
}

#define SHIFT_SWEEPS 8 /* passes over all rings to improve their shifts */

/* Number of rings that leave and enter a node by each NIC. */
typedef struct nic_load {
    int *out, *in; /* [NICs] */
} nic_load;

/* Adds (change = 1) or removes (-1) the load of the ring that starts its path through the node at
 * order[shift]; returns how many other rings use its NICs. */
static int load_nics(const dl_links *links, const dl_place *order, int size, int shift, int change,
                     nic_load *load)
{
    int *in = &load->in[dl_links_nic(links, order[shift])];
    int *out = &load->out[dl_links_nic(links, order[(shift + size - 1) % size])];
    int others = *in + *out - (change < 0 ? 2 : 0);
    *in += change;
    *out += change;
    return others;
}

/* Chooses where each ring starts its path through the node, so that few other rings use the NICs by
 * which it enters and leaves. The starts are spread over the node first; then each ring in turn
 * moves to the least used NICs. */
static void choose_shifts(const dl_links *links, const dl_place *const *orders, int size, int rings,
                          int *shifts)
{
    size_t nics = (size_t)dl_machine_node(links->machine, orders[0][0].node)->nic_count;
    nic_load load = {dl_calloc(nics, sizeof(int), "rings on NICs"),
                     dl_calloc(nics, sizeof(int), "rings on NICs")};
    for (int r = 0; r < rings; r++) {
        shifts[r] = r * size / rings;
        (void)load_nics(links, orders[r], size, shifts[r], 1, &load);
    }
    for (int i = 0; i < SHIFT_SWEEPS * rings; i++) {
        int r = i % rings, best = shifts[r];
        int least = load_nics(links, orders[r], size, best, -1, &load);
        for (int t = 0; t < size; t++) {
            int others = load_nics(links, orders[r], size, t, 1, &load);
            (void)load_nics(links, orders[r], size, t, -1, &load);
            if (others >= least) continue;
            least = others;
            best = t;
        }
        shifts[r] = best;
        (void)load_nics(links, orders[r], size, best, 1, &load);
    }
    free(load.out);
    free(load.in);
}

/* Number of consecutive ranks of one node from `start` on. */
static int ranks_from(const dl_place *ranks, int count, int start)
{
    int end = start + 1;
    while (end < count && ranks[end].node == ranks[start].node)
        end++;
    return end - start;
}

/* Number of rings: the fewest NICs, or ranks, of any node, as NCCL uses the minimum over the
 * nodes. */
static int count_lines(const dl_links *links, const dl_place *ranks, int count)
{
    int lines = count;
    for (int start = 0, size; start < count; start += size) {
        const int nics = dl_machine_node(links->machine, ranks[start].node)->nic_count;
        size = ranks_from(ranks, count, start);
        if (size < lines) lines = size;
        if (nics < lines) lines = nics;
    }
    return lines;
}

/* Whether rings take the same path through two nodes, with ranks a[size] and b[size]. */
static bool are_alike(const dl_links *links, const dl_place *a, const dl_place *b, int size)
{
    bool alike =
        dl_machine_node(links->machine, a->node) == dl_machine_node(links->machine, b->node);
    for (int i = 0; i < size; i++)
        alike &= a[i].kind == b[i].kind && a[i].index == b[i].index;
    return alike;
}

/* Repeats the order of all rings in the previous node. */
static void repeat_node(dl_rings *rings, const dl_place *ranks, int start, int size)
{
    for (int r = 0; r < rings->count; r++) {
        dl_place *order = rings->order + r * rings->size + start;
        for (int i = 0; i < size; i++) {
            order[i] = order[i - size];
            order[i].node = ranks[start].node;
        }
    }
}

/* Joins the nodes' rings. The rings that pass through a node follow its rings in turn, so that each
 * has separate lanes if there are enough. */
static void join_nodes(dl_rings *rings, const dl_links *links, const dl_place *ranks, int count)
{
    const int lines = count_lines(links, ranks, count);
    DL_AUTOFREE const dl_place **orders =
        dl_calloc((size_t)lines, sizeof *orders, "rings through a node");
    DL_AUTOFREE int *shifts = dl_calloc((size_t)lines, sizeof *shifts, "rings through a node");
    allocate(rings, lines, count);
    for (int start = 0, size, before = 0; start < count; before = size, start += size) {
        size = ranks_from(ranks, count, start);
        if (size == before && are_alike(links, ranks + start - size, ranks + start, size)) {
            repeat_node(rings, ranks, start, size);
            continue;
        }
        DL_SCOPED(dl_rings) local = {0};
        if (size > 1) dl_rings_init(&local, links, ranks + start, size);
        for (int r = 0; r < lines; r++)
            orders[r] = size > 1 ? local.order + r % local.count * size : ranks + start;
        choose_shifts(links, orders, size, lines, shifts);
        for (int r = 0; r < lines; r++) {
            for (int i = 0; i < size; i++)
                rings->order[r * count + start + i] = orders[r][(shifts[r] + i) % size];
        }
    }
}

bool dl_ranks_stand_by_nodes(const dl_place *ranks, int count)
{
    bool ascend = true;
    for (int i = 1; i < count; i++)
        ascend &= ranks[i].node >= ranks[i - 1].node;
    for (int i = 1; i < count && !ascend; i++) {
        for (int later = i + 1; later < count && ranks[i].node != ranks[i - 1].node; later++)
            if (ranks[later].node == ranks[i - 1].node) return false;
    }
    return true;
}

void dl_rings_init(dl_rings *rings, const dl_links *links, const dl_place *ranks, int count)
{
    *rings = (dl_rings){0};
    const bool in_one_node = ranks_from(ranks, count, 0) == count;
    if (in_one_node && find_cycles(rings, links, ranks, count)) return;
    if (!in_one_node && dl_ranks_stand_by_nodes(ranks, count)) {
        join_nodes(rings, links, ranks, count);
        return;
    }
    allocate(rings, 1, count);
    memcpy(rings->order, ranks, (size_t)count * sizeof *ranks);
}

void dl_rings_free(dl_rings *rings)
{
    free(rings->order);
    *rings = (dl_rings){0};
}

/* Rounds in which every rank of each ring sends a piece to the next rank. A rank forwards the piece
 * received in the previous round. A hop's latency passes while the sender sends its next piece, so
 * it delays the piece and not the link; the sender's cost of a message delays both. */
typedef struct ring_rounds {
    const dl_rings *rings;
    double piece; /* bytes of a piece in one ring */
    int count;
} ring_rounds;

/* Number of times that the edges of all rings cross each link, [links]; the caller frees it. */
static int *count_crossings(const dl_plan *plan, const dl_rings *rings)
{
    int *crossings = dl_calloc((size_t)plan->links->count, sizeof *crossings, "crossings of links");
    dl_route route;
    for (int r = 0; r < rings->count; r++) {
        const dl_place *order = rings->order + r * rings->size;
        for (int i = 0; i < rings->size; i++) {
            dl_plan_route(plan, order[i], order[(i + 1) % rings->size], &route);
            for (int l = 0; l < route.count; l++)
                crossings[route.links[l]] += route.uses[l];
        }
    }
    return crossings;
}

/* An edge of a ring: its latency; the time of a piece on idle links; the time of a piece while all
 * edges of all rings send; the part of that time which its bytes take. */
typedef struct edge {
    double hop_ns, alone_ns, shared_ns, bytes_ns;
} edge;

static edge measure_edge(const dl_plan *plan, dl_place from, dl_place to, double piece,
                         const int *crossings)
{
    dl_route route;
    dl_plan_route(plan, from, to, &route);
    const double message_ns = dl_plan_message_ns(plan, from, to, piece);
    edge e = {.hop_ns = dl_plan_hop_on(plan, &route) - dl_plan_message_ns(plan, from, to, 0),
              .alone_ns = message_ns + piece / dl_plan_rate(plan, &route) * 1e9};
    for (int l = 0; l < route.count; l++) {
        const double rate = dl_plan_frac(plan, &route) *
                            dl_links_capacity(plan->links, route.links[l]) /
                            crossings[route.links[l]];
        e.bytes_ns = fmax(e.bytes_ns, piece / rate * 1e9);
    }
    e.shared_ns = message_ns + e.bytes_ns;
    return e;
}

/* Time in ns of a piece over an edge that has waited for it, in rounds of `round_ns`. Pieces that
 * reach a link together share it. Otherwise they arrive at any time, and the link is a queue with
 * processor sharing, in which a piece takes its time alone over 1 - utilization by others
 * (Kleinrock 1976, Queueing Systems 2, section 4.4). */
static double piece_ns(const edge *e, bool together, double round_ns)
{
    if (together || e->shared_ns >= round_ns) return e->shared_ns;
    return fmin(e->shared_ns, e->alone_ns / (1 - (e->shared_ns - e->alone_ns) / round_ns));
}

#define SETTLED 1e-3 /* the iteration ends at this relative change of a round's time */
#define SEARCH_ROUNDS 100

/* Time in ns of one of many rounds: the mean over the edges of the latency and a piece's time, but
 * at least the slowest edge's time. */
static double round_ns(const edge *edges, int size, bool together)
{
    double slowest_ns = 0, now_ns = 0, before_ns = -1;
    for (int i = 0; i < size; i++)
        slowest_ns = fmax(slowest_ns, edges[i].shared_ns);
    for (int k = 0; k < SEARCH_ROUNDS && now_ns - before_ns > SETTLED * now_ns; k++) {
        before_ns = now_ns;
        double way_ns = 0;
        for (int i = 0; i < size; i++) {
            const edge *e = &edges[i];
            way_ns += e->hop_ns + (k == 0 ? e->alone_ns : piece_ns(e, together, before_ns));
        }
        now_ns = fmax(slowest_ns, way_ns / size);
    }
    return now_ns;
}

/* Time in ns of all rounds over a ring beyond the bytes of its slowest edge. The last piece over an
 * edge was delayed by a chain of sends, each of which waited either for the piece itself, one hop
 * back in the ring, or for the link's piece of the previous round. The longest chain has some
 * consecutive hops, each with its latency and a piece, and for the remaining rounds the slowest of
 * these edges. With few bytes that is the sum of the latencies on a piece's way (as in NCCL's
 * model, src/graph/tuning.cc); with many, they are hidden while the slowest edge sends. Only the
 * first `starts` edges differ; the others repeat them. */
static double rounds_lead_ns(const edge *edges, int size, int starts, int rounds, bool together)
{
    const double period_ns = round_ns(edges, size, together);
    DL_AUTOFREE double *own_ns = dl_calloc((size_t)size, sizeof *own_ns, "pieces over a ring");
    double most_bytes_ns = 0, longest_ns = 0;
    for (int i = 0; i < size; i++) {
        most_bytes_ns = fmax(most_bytes_ns, edges[i].bytes_ns);
        own_ns[i] = piece_ns(&edges[i], together, period_ns);
    }
    for (int start = 0; start < starts; start++) {
        double way_ns = 0, waited_ns = 0; /* waited_ns: time of a piece on the slowest edge so
                                           * far */
        double slowest_piece_ns = 0, left = rounds; /* left: number of remaining rounds, spent on
                                                     * that edge */
        for (int hops = 1, i = start; hops <= rounds; hops++) {
            const edge *e = &edges[i];
            way_ns += e->hop_ns + own_ns[i];
            if (e->shared_ns > waited_ns) {
                waited_ns = e->shared_ns;
                slowest_piece_ns = own_ns[i];
            }
            const double ns = way_ns - slowest_piece_ns + left * waited_ns;
            if (ns > longest_ns) longest_ns = ns;
            left--;
            if (++i == size) i = 0;
        }
    }
    return longest_ns - rounds * most_bytes_ns;
}

/* Whether pieces reach a link simultaneously: with a single ring, or if all hops have the same
 * latency. Otherwise, several rings through the same nodes have their slow hops at different
 * ranks. */
static bool come_together(const edge *edges, const dl_rings *rings)
{
    bool alike = true;
    for (int i = 1; i < rings->size; i++)
        alike &= edges[i].hop_ns == edges[0].hop_ns;
    return alike || rings->count == 1;
}

/* Adds one flow per edge, after transfer `after` (-1 = immediately) and before `join`. */
static void rounds_as_phase(dl_plan *plan, const ring_rounds *all, int after, int join)
{
    const int size = all->rings->size;
    const int per_node = dl_ranks_per_node(all->rings->order, size);
    DL_AUTOFREE int *crossings = plan->counts_only ? NULL : count_crossings(plan, all->rings);
    DL_AUTOFREE edge *edges = dl_calloc((size_t)size, sizeof *edges, "edges of a ring");
    for (int r = 0; r < all->rings->count; r++) {
        const dl_place *order = all->rings->order + r * size;
        for (int i = 0; i < size && !plan->counts_only; i++) {
            edges[i] = measure_edge(plan, order[i], order[(i + 1) % size], all->piece, crossings);
        }
        const dl_machine *m = plan->links->machine;
        const bool alike = per_node > 0 && m->site_count == 0 && plan->links->fabric < 0 &&
                           !dl_machine_has_unlike_nodes(m);
        const double lead_ns = rounds_lead_ns(edges, size, alike ? per_node : size, all->count,
                                              come_together(edges, all->rings));
        for (int i = 0; i < size; i++) {
            int t = dl_plan_add(plan, order[i], order[(i + 1) % size], all->count * all->piece, 0,
                                lead_ns);
            dl_plan_order(plan, after, t);
            dl_plan_order(plan, t, join);
        }
    }
}

/* Adds each round's pieces. Each edge has two transfers, the hop and then the piece; those of the
 * previous round begin with transfer `before`. */
static void rounds_as_chunks(dl_plan *plan, const ring_rounds *all, int after, int join)
{
    const int size = all->rings->size;
    for (int r = 0; r < all->rings->count; r++) {
        const dl_place *order = all->rings->order + r * size;
        for (int round = 0; round < all->count; round++) {
            const int before = plan->transfer_count - 2 * size;
            for (int i = 0; i < size; i++) {
                const int own = round > 0 ? before + 2 * i + 1 : -1;
                const int received = before + 2 * ((i + size - 1) % size) + 1;
                const dl_place from = order[i], to = order[(i + 1) % size];
                int hop, t;
                if (round > 0) {
                    hop = dl_plan_repeat(plan, own - 1);
                    t = dl_plan_repeat(plan, own);
                } else {
                    hop = dl_plan_wait(plan, dl_plan_hop_ns(plan, from, to) -
                                                 dl_plan_message_ns(plan, from, to, 0));
                    t = dl_plan_add(plan, from, to, all->piece, 0,
                                    dl_plan_message_ns(plan, from, to, all->piece));
                }
                dl_plan_order(plan, hop, t);
                dl_plan_order(plan, own, t);
                dl_plan_order(plan, round > 0 ? received : after, hop);
                if (round == all->count - 1) dl_plan_order(plan, t, join);
            }
        }
    }
}

/* Adds rounds over all rings; `piece` is the total of all rings. */
static void rings_pass(dl_plan *plan, dl_fidelity fidelity, const dl_rings *rings, double piece,
                       int count, int after, int join)
{
    const ring_rounds all = {rings, piece / rings->count, count};
    if (fidelity == DL_FIDELITY_PHASE) {
        rounds_as_phase(plan, &all, after, join);
    } else {
        rounds_as_chunks(plan, &all, after, join);
    }
}

int dl_chunk_count(double bytes, double chunk_bytes)
{
    double least = ceil(bytes / chunk_bytes); /* so that no chunk is larger than chunk_bytes */
    double small = fmin(DL_CHUNKS_WANTED, floor(bytes / DL_CHUNK_MIN_BYTES));
    double chunks = fmax(1, fmax(least, small));
    return chunks > DL_CHUNKS_MAX ? DL_CHUNKS_MAX : (int)chunks;
}

/* --- ring ----------------------------------------------------------------------------------- */

static bool supports_ring(const dl_collective_config *config)
{
    return config->kind != DL_ALLTOALL;
}

/* The chain from the root along the ring (towards the root for a reduce): order[at] is the root. */
typedef struct chain {
    const dl_place *order;
    int size, at;
    bool towards_root;
} chain;

/* Edge i of the chain, in the order in which a chunk crosses the edges. */
static void chain_edge(const chain *c, int i, dl_place *from, dl_place *to)
{
    int first = c->towards_root ? c->at + 1 : c->at;
    *from = c->order[(first + i) % c->size];
    *to = c->order[(first + i + 1) % c->size];
}

/* Each edge carries all bytes, preceded by the latencies of the whole chain and the time to fill
 * the pipeline: n - 2 chunks, at the rate of the slowest edge while other rings share the faster
 * ones, or at each edge's rate if there is only one chunk. */
static void chain_as_phase(dl_plan *plan, const chain *c, double bytes, int chunks)
{
    double slowest_ns = 0, all_ns = 0, latency_ns = 0;
    dl_place from, to;
    dl_route route;
    for (int i = 0; i < c->size - 1; i++) {
        chain_edge(c, i, &from, &to);
        dl_plan_route(plan, from, to, &route);
        double chunk_ns = bytes / chunks / dl_plan_rate(plan, &route) * 1e9;
        slowest_ns = fmax(slowest_ns, chunk_ns);
        all_ns += chunk_ns;
        latency_ns += dl_plan_hop_on(plan, &route);
    }
    double alone_ns = all_ns - slowest_ns, shared_ns = (c->size - 2) * slowest_ns;
    double fill_ns = shared_ns + (alone_ns - shared_ns) / chunks;
    for (int i = 0; i < c->size - 1; i++) {
        chain_edge(c, i, &from, &to);
        (void)dl_plan_add(plan, from, to, bytes, 0, latency_ns + fill_ns);
    }
}

/* Chunk k crosses edge i after it has crossed edge i - 1 and chunk k - 1 has crossed edge i. */
static void chain_as_chunks(dl_plan *plan, const chain *c, double bytes, int chunks)
{
    int stride = 2 * (c->size - 1); /* transfers per chunk: two per edge */
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
    DL_SCOPED(dl_rings) rings;
    int n = config->rank_count;
    dl_rings_init(&rings, plan->links, config->ranks, n);
    if (config->kind == DL_REDUCE || config->kind == DL_BROADCAST) {
        plan_chains(plan, config, &rings);
    } else {
        int rounds = config->kind == DL_ALLREDUCE ? 2 * (n - 1) : n - 1;
        int join = dl_plan_join(plan);
        rings_pass(plan, config->fidelity, &rings, config->bytes / n, rounds, -1, join);
    }
}

const dl_collective_algorithm dl_collective_ring = {"ring", supports_ring, plan_ring,
                                                    NULL,   NULL,          false};

/* --- hierarchical --------------------------------------------------------------------------- */

/* All-reduce over nodes with equally many ranks: reduce-scatter in each node, so that each rank has
 * the node's sum of its part; all-reduce of that part among the ranks with the same index in all
 * nodes; all-gather in each node. */
static bool supports_hierarchical(const dl_collective_config *config)
{
    int per_node = dl_ranks_per_node(config->ranks, config->rank_count);
    return config->kind == DL_ALLREDUCE && per_node > 1 && per_node < config->rank_count;
}

/* Adds the per_node - 1 rounds of a ring in every node, for reduce-scatter or all-gather. */
static void plan_nodes(dl_plan *plan, const dl_collective_config *config, int per_node, int after,
                       int join)
{
    for (int start = 0; start < config->rank_count; start += per_node) {
        DL_SCOPED(dl_rings) rings;
        dl_rings_init(&rings, plan->links, config->ranks + start, per_node);
        rings_pass(plan, config->fidelity, &rings, config->bytes / per_node, per_node - 1, after,
                   join);
    }
}

/* Adds one ring over the nodes for each rank of a node. */
static void plan_between(dl_plan *plan, const dl_collective_config *config, int per_node, int after,
                         int join)
{
    int nodes = config->rank_count / per_node;
    DL_SCOPED(dl_rings) rings;
    allocate(&rings, per_node, nodes);
    for (int i = 0; i < per_node; i++) {
        for (int node = 0; node < nodes; node++)
            rings.order[i * nodes + node] = config->ranks[node * per_node + i];
    }
    rings_pass(plan, config->fidelity, &rings, config->bytes / nodes, 2 * (nodes - 1), after, join);
}

static void plan_hierarchical(dl_plan *plan, const dl_collective_config *config)
{
    int per_node = dl_ranks_per_node(config->ranks, config->rank_count);
    int scattered = dl_plan_join(plan), reduced = dl_plan_join(plan), end = dl_plan_join(plan);
    plan_nodes(plan, config, per_node, -1, scattered);
    plan_between(plan, config, per_node, scattered, reduced);
    plan_nodes(plan, config, per_node, reduced, end);
}

/* NCCL has no such algorithm. */
static bool never(const dl_collective_config *config DL_UNUSED)
{
    return false;
}

const dl_collective_algorithm dl_collective_hierarchical = {
    "hierarchical", supports_hierarchical, plan_hierarchical, NULL, never, false};

/* --- two levels ----------------------------------------------------------------------------- */

/* All-reduce over groups whose ranks have equal values, such as the parameters of workers that
 * reduce their gradients in each step: the ranks with the same index in all groups reduce one part,
 * which all groups then gather. */
static bool supports_two_level(const dl_collective_config *config)
{
    return config->kind == DL_ALLREDUCE && config->equal_ranks > 0 &&
           config->equal_ranks < config->rank_count &&
           config->rank_count % config->equal_ranks == 0;
}

static void plan_two_level(dl_plan *plan, const dl_collective_config *config)
{
    const int averaged = dl_plan_join(plan);
    plan_between(plan, config, config->equal_ranks, -1, averaged);
    if (config->equal_ranks == 1) return;
    const int end = dl_plan_join(plan);
    plan_nodes(plan, config, config->equal_ranks, averaged, end);
}

const dl_collective_algorithm dl_collective_two_level = {
    "two_level", supports_two_level, plan_two_level, NULL, never, false};
