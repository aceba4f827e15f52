#include "sim/collective/rings.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"

#define SEARCH_MAX 16        /* ranks among which cycles are searched */
#define SEARCH_STEPS 2000000 /* then the best so far is taken */
#define CYCLES_MAX 32

/* Search for Hamiltonian cycles, disjoint by lanes. */
typedef struct search {
    int size, goal, steps;
    int lanes[SEARCH_MAX][SEARCH_MAX]; /* free ones */
    int found, best;
    int cycle[CYCLES_MAX][SEARCH_MAX]; /* the ones at hand */
    int best_cycle[CYCLES_MAX][SEARCH_MAX];
} search;

static bool extend(search *s, int place, unsigned used);

/* The cycle at hand is closed: keeps it if it is one more than ever, and looks for the next. */
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

/* Fills the lanes between the ranks; the goal is what the rank with the fewest lanes allows. */
static void count_lanes(search *s, const dl_machine *m, const dl_place *ranks, int count)
{
    s->size = count;
    s->goal = CYCLES_MAX;
    for (int a = 0; a < count; a++) {
        int sum = 0;
        for (int b = 0; b < count; b++) {
            for (int i = 0; i < m->nvlink_count; i++) {
                const dl_nvlink *l = &m->nvlinks[i];
                if ((l->a == ranks[a].index && l->b == ranks[b].index) ||
                    (l->b == ranks[a].index && l->a == ranks[b].index)) {
                    s->lanes[a][b] = l->lanes;
                }
            }
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

/* Two rings for each cycle, there and back; false if there is no cycle. */
static bool find_cycles(dl_rings *rings, const dl_links *links, const dl_place *ranks, int count)
{
    if (count < 3 || count > SEARCH_MAX || links->machine->nvlink_count == 0) return false;
    search *s = dl_calloc(1, sizeof *s, "search of rings");
    count_lanes(s, links->machine, ranks, count);
    if (s->goal > 0) (void)extend(s, 1, 1);
    if (s->best > 0) allocate(rings, 2 * s->best, count);
    for (int c = 0; c < s->best; c++) {
        for (int i = 0; i < count; i++) {
            rings->order[2 * c * count + i] = ranks[s->best_cycle[c][i]];
            rings->order[(2 * c + 1) * count + i] = ranks[s->best_cycle[c][count - 1 - i]];
        }
    }
    bool found = s->best > 0;
    free(s);
    return found;
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

#define TURN_SWEEPS 8 /* over all rings, in which their turns are improved */

/* How many rings leave and enter a node by each NIC. */
typedef struct nic_load {
    int *out, *in; /* [NICs] */
} nic_load;

/* Enters the ring that begins its way through the node at order[turn], or takes it out (change = 1,
 * -1); returns how many others use its NICs. */
static int load_nics(const dl_links *links, const dl_place *order, int size, int turn, int change,
                     nic_load *load)
{
    int *in = &load->in[dl_links_nic(links, order[turn])];
    int *out = &load->out[dl_links_nic(links, order[(turn + size - 1) % size])];
    int others = *in + *out - (change < 0 ? 2 : 0);
    *in += change;
    *out += change;
    return others;
}

/* Where each ring begins its way through the node, so that it enters and leaves by NICs that few
 * others use. They start spread over the node; each in turn moves to where it meets fewest. */
static void choose_turns(const dl_links *links, const dl_place *const *orders, int size, int rings,
                         int *turns)
{
    size_t nics = (size_t)links->machine->nic_count;
    nic_load load = {dl_calloc(nics, sizeof(int), "rings on NICs"),
                     dl_calloc(nics, sizeof(int), "rings on NICs")};
    for (int r = 0; r < rings; r++) {
        turns[r] = r * size / rings;
        (void)load_nics(links, orders[r], size, turns[r], 1, &load);
    }
    for (int i = 0; i < TURN_SWEEPS * rings; i++) {
        int r = i % rings, best = turns[r];
        int least = load_nics(links, orders[r], size, best, -1, &load);
        for (int t = 0; t < size; t++) {
            int others = load_nics(links, orders[r], size, t, 1, &load);
            (void)load_nics(links, orders[r], size, t, -1, &load);
            if (others >= least) continue;
            least = others;
            best = t;
        }
        turns[r] = best;
        (void)load_nics(links, orders[r], size, best, 1, &load);
    }
    free(load.out);
    free(load.in);
}

/* Rings go through a node by its own rings, one after another, so that each has lanes of its own
 * where there are enough of them. */
static void join_nodes(dl_rings *rings, const dl_links *links, const dl_place *ranks, int count,
                       int per_node)
{
    int nics = links->machine->nic_count, lines = nics < per_node ? nics : per_node;
    const dl_place **orders = dl_calloc((size_t)lines, sizeof *orders, "rings through a node");
    int *turns = dl_calloc((size_t)lines, sizeof *turns, "rings through a node");
    allocate(rings, lines, count);
    for (int start = 0; start < count; start += per_node) {
        dl_rings local = {0};
        if (per_node > 1) dl_rings_init(&local, links, ranks + start, per_node);
        for (int r = 0; r < lines; r++)
            orders[r] = per_node > 1 ? local.order + r % local.count * per_node : ranks + start;
        choose_turns(links, orders, per_node, lines, turns);
        for (int r = 0; r < lines; r++) {
            for (int i = 0; i < per_node; i++)
                rings->order[r * count + start + i] = orders[r][(turns[r] + i) % per_node];
        }
        dl_rings_free(&local);
    }
    free(turns);
    free(orders);
}

void dl_rings_init(dl_rings *rings, const dl_links *links, const dl_place *ranks, int count)
{
    *rings = (dl_rings){0};
    int per_node = dl_ranks_per_node(ranks, count);
    if (per_node == count && find_cycles(rings, links, ranks, count)) return;
    if (per_node > 0 && per_node < count) {
        join_nodes(rings, links, ranks, count, per_node);
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

/* One flow for each edge, with the latencies of all rounds in front. */
static void pass_as_phase(dl_plan *plan, const dl_place *order, int size, double piece, int rounds,
                          int after, int join)
{
    for (int i = 0; i < size; i++) {
        int t = dl_plan_add(plan, order[i], order[(i + 1) % size], rounds * piece, rounds, 0);
        dl_plan_order(plan, after, t);
        dl_plan_order(plan, t, join);
    }
}

/* In each round a rank sends on what it received in the round before, once it has sent that
 * round's own. Transfers of round k are numbered first + k * size + rank. */
static void pass_as_chunks(dl_plan *plan, const dl_place *order, int size, double piece, int rounds,
                           int after, int join)
{
    int before = -1;
    for (int round = 0; round < rounds; round++) {
        int first = plan->transfer_count;
        for (int i = 0; i < size; i++) {
            int t = dl_plan_add(plan, order[i], order[(i + 1) % size], piece, 1, 0);
            dl_plan_order(plan, round == 0 ? after : before + i, t);
            if (round > 0) dl_plan_order(plan, before + (i + size - 1) % size, t);
            if (round == rounds - 1) dl_plan_order(plan, t, join);
        }
        before = first;
    }
}

void dl_ring_pass(dl_plan *plan, dl_fidelity fidelity, const dl_place *order, int size,
                  double piece, int rounds, int after, int join)
{
    if (fidelity == DL_FIDELITY_PHASE) {
        pass_as_phase(plan, order, size, piece, rounds, after, join);
    } else {
        pass_as_chunks(plan, order, size, piece, rounds, after, join);
    }
}

void dl_rings_pass(dl_plan *plan, dl_fidelity fidelity, const dl_rings *rings, double piece,
                   int rounds, int after, int join)
{
    for (int r = 0; r < rings->count; r++) {
        dl_ring_pass(plan, fidelity, rings->order + r * rings->size, rings->size,
                     piece / rings->count, rounds, after, join);
    }
}

int dl_chunk_count(double bytes, double chunk_bytes)
{
    double least = ceil(bytes / chunk_bytes); /* so that none is larger than chunk_bytes */
    double small = fmin(DL_CHUNKS_WANTED, floor(bytes / DL_CHUNK_MIN_BYTES));
    double chunks = fmax(1, fmax(least, small));
    return chunks > DL_CHUNKS_MAX ? DL_CHUNKS_MAX : (int)chunks;
}
