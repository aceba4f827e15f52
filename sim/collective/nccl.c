#include "sim/collective/nccl.h"

#include <math.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "sim/collective/rings.h"

const char *const dl_nccl_protocol_names[DL_NCCL_PROTOCOLS] = {"ll", "ll128", "simple"};

/* --- constants: us and GB/s, of tuning.cc ------------------------------------------------------
 * */

enum { NVLINK, PCI, NET, WAYS };

static const double call_us[DL_NCCL_ALGORITHMS][DL_NCCL_PROTOCOLS] = {
    [DL_NCCL_TREE] = {6.8, 14, 8.4}, [DL_NCCL_RING] = {6.6, 14, 8.4}};

static const double hop_us[WAYS][DL_NCCL_ALGORITHMS][DL_NCCL_PROTOCOLS] = {
    [NVLINK] = {{0.6, 1.25, 4}, {0.6, 1.9, 3.4}, {0, 0, 25}, {0, 0, 25}},
    [PCI] = {{1, 1.9, 4}, {1, 2.5, 5.7}},
    [NET] = {{5, 8.5, 14}, {2.7, 4, 14}, {0, 0, 18}, {0, 0, 14}},
};

/* By generation of the GPUs, and for 1, 2 and more nodes. Of LL over several nodes by processor:
 * Intel's and others', AMD's. */
static const double ll_most[3][3] = {{39, 39, 20.4}, {87.7, 22.5, 19}, {141, 45, 35}};
static const double ll128_ring_most[3][3] = {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 36.7}};
static const double ll128_tree_most[3][3] = {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 29}};
static const double tree_most[3][3] = {{26.5, 18.5, 10}, {24, 23.6, 17.8}, {38.7, 41.4, 36}};

/* Of trees, by powers of two from 64 bytes. */
#define CORRECTED_SIZES 23
static const double tree_correction[DL_NCCL_PROTOCOLS][CORRECTED_SIZES] = {
    {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1},
    {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1},
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9}};

#define REFERENCE_US \
    6.6 /* of a way between two nodes as in dgx_h100.ini: two links of PCIe and a port each */
#define PLATEAU_BYTES \
    64 /* of a rank's part of a channel: from there on rings by Simple wait longer */

/* Channels (search.cc, ncclTopoCompute and ncclTopoDupChannels). The widest that NCCL looks for, by
 * generation, within and between nodes; from 25 GB/s on each becomes two, but on Hopper those of less
 * than 50 GB/s only where there are at most four. */
static const double widest_gb_per_s[3][2] = {{40, 48}, {40, 48}, {60, 48}};
#define SPLIT_GB_PER_S 25
#define HOPPER_SPLIT_GB_PER_S 50
#define HOPPER_SPLIT_COUNT 4

/* What NCCL counts on an NVLink, and how many of them a GPU has to an NVSwitch (topo.h). */
typedef struct nvlink_rate {
    double capability, gb_per_s;
    int to_switch;
} nvlink_rate;
static const nvlink_rate nvlink_rates[] = {
    {6.0, 18, 0}, {7.0, 20, 6}, {8.0, 20, 12}, {8.6, 12, 0}, {9.0, 20.6, 18}};

/* --- the group ---------------------------------------------------------------------------------
 * */

static bool joined_by_nvlink(const dl_machine *m, int a, int b)
{
    for (int i = 0; i < m->nvlink_count; i++) {
        const dl_nvlink *l = &m->nvlinks[i];
        if ((l->a == a && l->b == b) || (l->a == b && l->b == a)) return true;
    }
    return m->nvswitch_link >= 0;
}

/* What all rings over the ranks get together while all of their edges send. */
static double rings_rate(const dl_links *links, const dl_place *ranks, int count, int *rings_count)
{
    dl_rings rings;
    dl_route route;
    double least = INFINITY;
    dl_rings_init(&rings, links, ranks, count);
    int *crossings = dl_calloc((size_t)links->count, sizeof *crossings, "crossings of links");
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < rings.count * count; i++) {
            const int next = (i + 1) % count == 0 ? i + 1 - count : i + 1;
            dl_links_route(links, rings.order[i], rings.order[next], &route);
            for (int l = 0; l < route.count; l++) {
                const int link = route.links[l];
                if (link >= links->per_node * links->machine->nodes)
                    continue; /* beyond the ports */
                if (pass == 0) {
                    crossings[link] += route.uses[l];
                } else {
                    least = fmin(least, dl_links_capacity(links, link) / crossings[link]);
                }
            }
        }
    }
    *rings_count = rings.count;
    free(crossings);
    dl_rings_free(&rings);
    return least * *rings_count;
}

/* Lowers an NVLink's rates, or those of a GPU to the switch, to what NCCL counts on. */
static void lower(dl_links *links, dl_edge edge, double bytes_per_s)
{
    links->capacity[edge.up] = fmin(links->capacity[edge.up], bytes_per_s);
    links->capacity[edge.down] = fmin(links->capacity[edge.down], bytes_per_s);
}

static void lower_nvlinks(dl_links *links, double capability)
{
    const dl_machine *m = links->machine;
    for (size_t i = 0; i < sizeof nvlink_rates / sizeof *nvlink_rates; i++) {
        const nvlink_rate *known = &nvlink_rates[i];
        const double rate = known->gb_per_s * 1e9;
        if (known->capability != capability) continue;
        for (int l = 0; l < m->nvlink_count; l++)
            lower(links, links->nvlink[l], rate * m->nvlinks[l].lanes);
        for (int g = 0; g < m->gpu_count && links->nvswitch != NULL && known->to_switch > 0; g++)
            lower(links, links->nvswitch[g], rate * known->to_switch);
    }
}

static bool below_one_switch(const dl_machine *m, int a, int b)
{
    for (int place = a; place >= m->sockets; place = dl_machine_parent(m, place)) {
        for (int other = b; other >= m->sockets; other = dl_machine_parent(m, other))
            if (other == place) return true;
    }
    return false;
}

/* Of the ranks of the first node: over NVLink between themselves, and a NIC below their switch;
 * from Hopper on its data may come over NVLink from another GPU. */
static bool allows_ll128(const dl_nccl_group *g, const dl_links *links, const dl_place *ranks,
                         int first_node)
{
    const dl_machine *m = links->machine;
    const double of_first =
        dl_machine_model(m, ranks[0].node, ranks[0].index)->compute_capability.value;
    if (of_first != 7.0 && of_first != 8.0 && of_first != 9.0) return false;
    for (int r = 1; r < g->ranks; r++) {
        const dl_gpu_model *model = dl_machine_model(m, ranks[r].node, ranks[r].index);
        if (model->compute_capability.value != of_first) return false;
    }
    if (first_node > 1 && !g->nvlink) return false;
    if (g->nodes == 1) return true;
    if (!m->gpudirect) return false;
    for (int r = 0; r < first_node && of_first < 9; r++) {
        const int nic = dl_links_nic(links, ranks[r]);
        if (!below_one_switch(m, m->gpus[ranks[r].index].parent, m->nics[nic].parent)) return false;
    }
    return true;
}

/* Whether a tree's NIC sends to and from the same GPU. From Hopper on NCCL looks for such a tree
 * where no second GPU is below the NIC's switch, before it lets data come from further away
 * (search.cc, "Try a simpler tree"). */
static bool has_simple_tree(const dl_nccl_group *g, const dl_links *links, const dl_place *ranks,
                            int first_node)
{
    const dl_machine *m = links->machine;
    if (g->nodes == 1) return false;
    if (g->ranks == g->nodes) return true;
    if (g->generation < 2) return false;
    for (int r = 0; r < first_node; r++) {
        const int nic = dl_links_nic(links, ranks[r]);
        for (int other = 0; other < first_node; other++) {
            if (other != r &&
                below_one_switch(m, m->gpus[ranks[other].index].parent, m->nics[nic].parent))
                return false;
        }
    }
    return true;
}

static int channel_count(const dl_nccl_group *g, int rings)
{
    const double widest = widest_gb_per_s[g->generation][g->nodes > 1] * 1e9;
    int count = rings;
    if (g->ring_bytes_per_s / count > widest) count = (int)floor(g->ring_bytes_per_s / widest);
    const double each_gb_per_s = g->ring_bytes_per_s / count / 1e9;
    if (each_gb_per_s < SPLIT_GB_PER_S) return count;
    if (g->generation == 2 && each_gb_per_s < HOPPER_SPLIT_GB_PER_S && count > HOPPER_SPLIT_COUNT)
        return count;
    return 2 * count;
}

void dl_nccl_group_init(dl_nccl_group *group, const dl_links *links, const dl_place *ranks,
                        int count)
{
    const dl_machine *m = links->machine;
    dl_links nominal;
    dl_links_init(&nominal, m);
    *group = (dl_nccl_group){.ranks = count, .nodes = 1, .nvlink = true, .amd = m->amd};
    int first_node = 0, two_nodes = 0, rings = 1;
    double capability = INFINITY;
    for (int r = 0; r < count; r++) {
        if (r > 0 && ranks[r].node != ranks[r - 1].node) group->nodes++;
        first_node += group->nodes == 1;
        two_nodes += group->nodes <= 2;
        capability =
            fmin(capability,
                 dl_machine_model(m, ranks[r].node, ranks[r].index)->compute_capability.value);
    }
    for (int r = 1; r < first_node; r++)
        group->nvlink &= joined_by_nvlink(m, ranks[r - 1].index, ranks[r].index);
    group->nvlink &= first_node > 1;
    group->generation = capability >= 9 ? 2 : capability >= 8 ? 1 : 0;
    group->sums = nominal.nvswitch != NULL && m->nvswitch_sum_frac.known;
    double inside = INFINITY;
    group->inside_frac = 1;
    if (first_node > 1) {
        const double in_file = rings_rate(&nominal, ranks, first_node, &rings);
        lower_nvlinks(&nominal, capability);
        inside = rings_rate(&nominal, ranks, first_node, &rings);
        group->inside_frac = inside / in_file;
    }
    group->inside_bytes_per_s = inside;
    group->ring_bytes_per_s =
        group->nodes > 1 ? rings_rate(&nominal, ranks, two_nodes, &rings) : inside;
    group->tree_bytes_per_s = group->ring_bytes_per_s;
    if (group->nodes == 2) group->tree_bytes_per_s = fmin(inside, 2 * group->ring_bytes_per_s);
    group->channels = channel_count(group, rings);
    group->simple_tree = has_simple_tree(group, &nominal, ranks, first_node);
    group->ll128 = allows_ll128(group, &nominal, ranks, first_node);
    dl_links_free(&nominal);
}

/* --- bandwidths --------------------------------------------------------------------------------
 * */

static int nodes_index(const dl_nccl_group *g)
{
    return g->nodes <= 2 ? g->nodes - 1 : 2;
}

/* The part of the links' rate that the protocol reaches. */
static double bandwidth_frac(const dl_nccl_group *g, dl_collective_kind kind,
                             dl_nccl_algorithm algorithm, dl_nccl_protocol protocol)
{
    const int at = nodes_index(g), of = g->generation;
    const double per_channel = g->channels * 1e9;
    const double ll = ll_most[g->nodes == 1 ? of : g->amd ? 1 : 0][at] * 1e9;
    if (algorithm == DL_NCCL_NVLS || algorithm == DL_NCCL_NVLS_TREE) return 1;
    if (algorithm == DL_NCCL_RING) {
        const double bus = g->ring_bytes_per_s;
        const bool sums = kind == DL_ALLREDUCE || kind == DL_REDUCE;
        if (protocol == DL_NCCL_LL) return fmin(ll / bus, g->nodes > 1 || sums ? 1 / 4.0 : 1 / 3.0);
        if (protocol == DL_NCCL_SIMPLE) return 1;
        return fmin(g->ranks < 2 * g->nodes ? 0.7 : 0.92,
                    per_channel * ll128_ring_most[of][at] / bus);
    }
    const double bus = g->tree_bytes_per_s;
    double frac = fmin(0.92, per_channel * tree_most[of][at] / bus);
    if (protocol == DL_NCCL_LL) frac = fmin(frac / 3.8, ll / bus);
    if (protocol == DL_NCCL_LL128) {
        frac = fmin(frac * (g->nodes == 1 ? 7.0 / 9 : 120.0 / 128),
                    per_channel * ll128_tree_most[of][at] / bus);
    }
    return g->simple_tree ? 0.85 * frac : frac;
}

static int steps_of(dl_collective_kind kind, int ranks)
{
    if (kind == DL_ALLREDUCE) return 2 * (ranks - 1);
    return kind == DL_ALLGATHER || kind == DL_REDUCE_SCATTER ? ranks - 1 : ranks;
}

/* Of NVLS within a node: a GPU that heads a channel counts twice for it, so that the links of n GPUs
 * carry n + 1 times each of n channels (search.cc, ncclTopoSearchTryNvls). */
static double nvls_inside(const dl_nccl_group *g)
{
    const double gpus = (double)g->ranks / g->nodes;
    return g->inside_bytes_per_s * gpus / (gpus + 1);
}

/* Of the bytes as nccl-tests count them. */
static double bandwidth(const dl_nccl_group *g, dl_collective_kind kind,
                        dl_nccl_algorithm algorithm, dl_nccl_protocol protocol)
{
    const double frac = bandwidth_frac(g, kind, algorithm, protocol);
    switch (algorithm) {
    case DL_NCCL_RING: return frac * g->ring_bytes_per_s * g->ranks / steps_of(kind, g->ranks);
    case DL_NCCL_NVLS: return nvls_inside(g) * 5 / 6;
    case DL_NCCL_NVLS_TREE:
        return fmin(nvls_inside(g), g->ring_bytes_per_s / (g->nodes > 2 ? 2 : 1)) * 5 / 6;
    default: return frac * g->tree_bytes_per_s / 2;
    }
}

/* --- latencies ---------------------------------------------------------------------------------
 * */

/* What a message over the network costs its sender. */
static double post_us(const dl_nccl_group *g, dl_nccl_protocol protocol)
{
    return g->nodes == 1 ? 0 : (g->amd ? 2 : 1) * (protocol == DL_NCCL_SIMPLE ? 3 : 1);
}

static int inner_way(const dl_nccl_group *g)
{
    return g->nvlink ? NVLINK : PCI;
}

/* With one GPU in each node the hops of a tree, which nothing hides. */
static double outer_hop_us(const dl_nccl_group *g, dl_nccl_algorithm algorithm,
                           dl_nccl_protocol protocol)
{
    return hop_us[NET][g->ranks == g->nodes ? DL_NCCL_TREE : algorithm][protocol];
}

static double latency_us(const dl_nccl_group *g, dl_collective_kind kind,
                         dl_nccl_algorithm algorithm, dl_nccl_protocol protocol)
{
    const double inner = hop_us[inner_way(g)][algorithm][protocol];
    const double outer = outer_hop_us(g, algorithm, protocol);
    const double call = call_us[algorithm][protocol];
    if (algorithm == DL_NCCL_NVLS) return inner;
    if (algorithm == DL_NCCL_NVLS_TREE) return inner + 2 * floor(log2(g->nodes)) * outer;
    if (algorithm == DL_NCCL_TREE) {
        return call + 2 * ((g->ranks / g->nodes - 1) * inner + floor(log2(g->nodes)) * outer);
    }
    if (kind == DL_BROADCAST || kind == DL_REDUCE) return call + (g->nodes > 1 ? outer : inner);
    const int steps = steps_of(kind, g->ranks);
    const int outer_steps = (kind == DL_ALLREDUCE ? 2 : 1) * (g->nodes - 1);
    return call + (steps - outer_steps) * fmax(inner, post_us(g, protocol)) + outer_steps * outer;
}

/* --- the choice --------------------------------------------------------------------------------
 * */

static bool has(const dl_nccl_group *g, dl_collective_kind kind, dl_nccl_algorithm algorithm,
                dl_nccl_protocol protocol)
{
    if (kind == DL_ALLTOALL || (protocol == DL_NCCL_LL128 && !g->ll128)) return false;
    if (algorithm == DL_NCCL_RING) return true;
    if (kind != DL_ALLREDUCE) return false;
    if (algorithm == DL_NCCL_TREE) return true;
    return g->sums && protocol == DL_NCCL_SIMPLE &&
           (algorithm == DL_NCCL_NVLS_TREE) == (g->nodes > 1);
}

/* What of its bandwidth a tree reaches at that size. */
static double correction(dl_nccl_algorithm algorithm, dl_nccl_protocol protocol, double bytes)
{
    const int size = bytes < 64 ? 0 : (int)floor(log2(floor(bytes / 64)));
    return algorithm == DL_NCCL_TREE && size < CORRECTED_SIZES ? tree_correction[protocol][size]
                                                               : 1;
}

double dl_nccl_time_ns(const dl_nccl_group *g, dl_collective_kind kind, double bytes,
                       dl_nccl_algorithm algorithm, dl_nccl_protocol protocol)
{
    if (!has(g, kind, algorithm, protocol)) return INFINITY;
    const double rate =
        bandwidth(g, kind, algorithm, protocol) * correction(algorithm, protocol, bytes);
    double us = latency_us(g, kind, algorithm, protocol);
    if (algorithm == DL_NCCL_RING && protocol == DL_NCCL_SIMPLE && g->nodes > 1 &&
        kind == DL_ALLREDUCE && bytes / (g->channels * (double)g->ranks) >= PLATEAU_BYTES) {
        us *= g->generation == 0 ? 1.9 : 1.4;
    }
    return us * 1e3 + bytes / rate * 1e9;
}

bool dl_nccl_choose(const dl_nccl_group *group, dl_collective_kind kind, double bytes,
                    unsigned algorithms, dl_nccl_algorithm *algorithm, dl_nccl_protocol *protocol)
{
    double best_ns = INFINITY;
    for (int a = 0; a < DL_NCCL_ALGORITHMS; a++) {
        for (int p = 0; p < DL_NCCL_PROTOCOLS && algorithms & 1u << a; p++) {
            const double ns =
                dl_nccl_time_ns(group, kind, bytes, (dl_nccl_algorithm)a, (dl_nccl_protocol)p);
            if (ns >= best_ns) continue;
            best_ns = ns;
            *algorithm = (dl_nccl_algorithm)a;
            *protocol = (dl_nccl_protocol)p;
        }
    }
    return isfinite(best_ns);
}

#define SEND_LL_BYTES 16384 /* NCCL_P2P_LL_THRESHOLD (enqueue.cc) */

dl_nccl_protocol dl_nccl_sends_by(double bytes)
{
    return bytes <= SEND_LL_BYTES ? DL_NCCL_LL : DL_NCCL_SIMPLE;
}

/* In a node the links' rates are NCCL's; between nodes the ports limit. NCCL's hops are whole ones:
 * those inside a node hold the latency of its links, those between nodes that of InfiniBand. */
dl_hop_costs dl_nccl_costs(const dl_nccl_group *g, dl_collective_kind kind, double bytes,
                           dl_nccl_algorithm algorithm, dl_nccl_protocol protocol)
{
    const bool chunks = algorithm == DL_NCCL_TREE && protocol == DL_NCCL_SIMPLE;
    const bool nvls = algorithm == DL_NCCL_NVLS || algorithm == DL_NCCL_NVLS_TREE;
    const double call = call_us[nvls ? DL_NCCL_RING : algorithm][protocol];
    const double links_frac = g->nodes == 1 && !nvls ? g->inside_frac : 1;
    const double part = chunks ? 1 : correction(algorithm, protocol, bytes);
    const double outer = outer_hop_us(g, algorithm, protocol);
    double inner = hop_us[inner_way(g)][algorithm][protocol];
    if (nvls) inner = (inner - call) / 2; /* up and down */
    return (dl_hop_costs){
        .launch_ns = call * 1e3,
        .hop_ns = inner * 1e3,
        .network_hop_ns = outer * 1e3,
        .network_message_ns = algorithm == DL_NCCL_RING ? post_us(g, protocol) * 1e3 : 0,
        .bandwidth_frac = links_frac * part * bandwidth_frac(g, kind, algorithm, protocol),
        .network_frac = 1,
        .held_ns = inner * 1e3,
        .network_held_ns = fmin(outer, REFERENCE_US) * 1e3,
    };
}
