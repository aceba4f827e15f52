#include "sim/collective/nccl.h"

#include <math.h>

#include "common/alloc.h"
#include "sim/collective/nccl_internal.h"
#include "sim/collective/rings.h"

const char *const dl_nccl_protocol_names[DL_NCCL_PROTOCOLS] = {"ll", "ll128", "simple"};

/* Latency of a route between two nodes as in dgx_h100.ini: two PCIe links and a port each. */
#define REFERENCE_US 6.6
/* Bytes of a rank's part of a channel from which rings by Simple have a higher latency. */
#define PLATEAU_BYTES 64

/* Widest channels in NCCL's search, by generation, within and between nodes (search.cc,
 * ncclTopoCompute and ncclTopoDupChannels). A channel of 25 GB/s or more is split into two; since
 * Hopper, a channel of less than 50 GB/s is split only if there are at most four. */
static const double widest_gb_per_s[DL_NCCL_GENERATIONS][2] = {
    {40, 48}, {40, 48}, {60, 48}, {90, 96}};
#define SPLIT_GB_PER_S 25
#define HOPPER_SPLIT_GB_PER_S 50
#define HOPPER_SPLIT_COUNT 4

/* NCCL's figure for the rate of an NVLink, and the number of NVLinks from a GPU to an NVSwitch
 * (topo.h). */
typedef struct nvlink_rate {
    double capability, gb_per_s;
    int to_switch;
} nvlink_rate;
static const nvlink_rate nvlink_rates[] = {{6.0, 18, 0},    {7.0, 20, 6},    {8.0, 20, 12},
                                           {8.6, 12, 0},    {9.0, 20.6, 18}, {10.0, 40.1, 18},
                                           {10.3, 40.1, 18}};

/* --- the group ------------------------------------------------------------------------------- */

/* A crossing of a link by an edge of a ring. */
typedef struct crossing {
    int link, times;
} crossing;

/* Total rate of all rings over the ranks while all edges of all rings send. */
static double rings_rate(const dl_links *links, const dl_place *ranks, int count, int *rings_count)
{
    DL_SCOPED(dl_rings) rings;
    dl_route route;
    DL_AUTOFREE crossing *all = NULL;
    size_t all_count = 0;
    double least = INFINITY;
    dl_rings_init(&rings, links, ranks, count);
    for (int i = 0; i < rings.count * count; i++) {
        const int next = (i + 1) % count == 0 ? i + 1 - count : i + 1;
        dl_links_route_collective(links, rings.order[i], rings.order[next], false, &route);
        for (int l = 0; l < route.count; l++) {
            const int link = route.links[l];
            if (link >= links->per_node * links->machine->nodes)
                continue; /* only links of nodes count */
            DL_APPEND(all, all_count, "crossings of links") = (crossing){link, route.uses[l]};
        }
    }
    /* Only the elements of crossed links are set: the machine has far more links. */
    DL_AUTOFREE int *times =
        dl_realloc(NULL, (size_t)links->count, sizeof *times, "crossings of links");
    for (size_t c = 0; c < all_count; c++)
        times[all[c].link] = 0;
    for (size_t c = 0; c < all_count; c++)
        times[all[c].link] += all[c].times;
    for (size_t c = 0; c < all_count; c++)
        least = fmin(least, dl_links_capacity(links, all[c].link) / times[all[c].link]);
    *rings_count = rings.count;
    return least * *rings_count;
}

/* Caps the rates of an NVLink, or of a GPU's links to the switch, at NCCL's figure. */
static void lower(dl_node_links *links, dl_edge edge, double bytes_per_s)
{
    links->capacity[edge.up] = fmin(links->capacity[edge.up], bytes_per_s);
    links->capacity[edge.down] = fmin(links->capacity[edge.down], bytes_per_s);
}

static void lower_nvlinks(dl_node_links *links, double capability)
{
    const dl_node_kind *n = links->kind;
    for (size_t i = 0; i < DL_LENGTH(nvlink_rates); i++) {
        const nvlink_rate *known = &nvlink_rates[i];
        const double rate = known->gb_per_s * 1e9;
        if (known->capability != capability) continue;
        for (int l = 0; l < n->nvlink_count; l++)
            lower(links, links->nvlink[l], rate * n->nvlinks[l].lanes);
        for (int g = 0; g < n->gpu_count && links->nvswitch != NULL && known->to_switch > 0; g++)
            lower(links, links->nvswitch[g], rate * known->to_switch);
    }
}

static bool below_one_switch(const dl_node_kind *n, int a, int b)
{
    for (int place = a; place >= n->sockets; place = dl_machine_parent(n, place)) {
        for (int other = b; other >= n->sockets; other = dl_machine_parent(n, other))
            if (other == place) return true;
    }
    return false;
}

/* The ranks of the first node of a kind. In NCCL every rank examines its node, and all use the
 * minimum of the results (src/init.cc, initTransportsRank: channels, bandwidths). */
typedef struct one_node {
    const dl_node_kind *kind;
    const dl_place *ranks;
    int count;
} one_node;

/* Sets nodes[], which has room for all kinds of nodes, to the first node of each kind among
 * ranks[count]; returns their number. */
static int find_kinds(const dl_machine *m, const dl_place *ranks, int count, one_node *nodes)
{
    int found = 0, last_kind = -1;
    for (int r = 0; r < count; r++) {
        const int kind = dl_machine_links_kind(m, ranks[r].node);
        if (r > 0 && (ranks[r].node == ranks[r - 1].node || kind == last_kind)) continue;
        last_kind = kind;
        bool seen = false;
        for (int n = 0; n < found && !seen; n++)
            seen = dl_machine_links_kind(m, nodes[n].ranks[0].node) == kind;
        if (seen) continue;
        one_node *node = &nodes[found++];
        *node = (one_node){dl_machine_node(m, ranks[r].node), &ranks[r], 0};
        while (r + node->count < count && ranks[r + node->count].node == ranks[r].node)
            node->count++;
    }
    return found;
}

/* LL128 requires NVLink between the node's ranks and, over several nodes, GPUDirect and a NIC below
 * their switch; since Hopper, data may reach the NIC over NVLink through another GPU. */
static bool allows_ll128(const dl_nccl_group *g, const dl_links *links, const one_node *node,
                         double capability)
{
    const dl_node_kind *kind = node->kind;
    if (node->count > 1 && !g->nvlink) return false;
    if (g->nodes == 1) return true;
    if (!kind->gpudirect) return false;
    for (int r = 0; r < node->count && capability < 9; r++) {
        const int nic = dl_links_nic(links, node->ranks[r]);
        if (!below_one_switch(kind, kind->gpus[node->ranks[r].index].parent,
                              kind->nics[nic].parent))
            return false;
    }
    return true;
}

/* The compute capability of all ranks if LL128 may be used with it; otherwise 0. */
static double ll128_capability(const dl_machine *m, const dl_place *ranks, int count)
{
    const double of_first =
        dl_machine_model(m, ranks[0].node, ranks[0].index)->compute_capability.value;
    if (of_first != 7.0 && of_first != 8.0 && of_first < 9.0) return 0;
    for (int r = 1; r < count; r++) {
        const dl_gpu_model *model = dl_machine_model(m, ranks[r].node, ranks[r].index);
        if (model->compute_capability.value != of_first) return 0;
    }
    return of_first;
}

/* Whether a tree's NIC sends to and from the same GPU. Since Hopper, NCCL prefers such a tree if no
 * second GPU is below the NIC's switch, before it allows data from farther away (search.cc, "Try a
 * simpler tree"). */
static bool has_simple_tree(const dl_nccl_group *g, const dl_links *links, const one_node *node)
{
    const dl_node_kind *kind = node->kind;
    if (g->nodes == 1) return false;
    if (g->ranks == g->nodes) return true;
    if (g->generation < 2) return false;
    for (int r = 0; r < node->count; r++) {
        const int nic = dl_links_nic(links, node->ranks[r]);
        for (int other = 0; other < node->count; other++) {
            if (other != r && below_one_switch(kind, kind->gpus[node->ranks[other].index].parent,
                                               kind->nics[nic].parent))
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
    if (g->generation >= 2 && each_gb_per_s < HOPPER_SPLIT_GB_PER_S && count > HOPPER_SPLIT_COUNT)
        return count;
    return 2 * count;
}

/* Whether at least one node has several ranks, and all such nodes connect them by NVLink. */
static bool all_by_nvlink(const one_node *nodes, int count)
{
    bool several = false;
    for (int n = 0; n < count; n++) {
        const one_node *node = &nodes[n];
        several |= node->count > 1;
        for (int r = 1; r < node->count; r++)
            if (node->kind->nvswitch_link < 0 &&
                dl_machine_nvlink(node->kind, node->ranks[r - 1].index, node->ranks[r].index) < 0)
                return false;
    }
    return several;
}

/* Sets the rate of the slowest node and its ratio to the rate in the machine file; nodes with one
 * rank do not count. Caps NVLinks at NCCL's figure. */
static void measure_inside(dl_nccl_group *group, dl_links *links, const one_node *nodes, int count,
                           double capability, int *rings)
{
    DL_AUTOFREE double *in_file = dl_calloc((size_t)count, sizeof *in_file, "rates of nodes");
    for (int n = 0; n < count; n++)
        if (nodes[n].count > 1)
            in_file[n] = rings_rate(links, nodes[n].ranks, nodes[n].count, rings);
    bool lowered = false;
    for (int n = 0; n < count; n++) {
        if (nodes[n].count == 1) continue;
        for (int k = 0; k < links->machine->kind_count && !lowered; k++)
            lower_nvlinks(&links->kinds[k], capability);
        lowered = true;
        const double rate = rings_rate(links, nodes[n].ranks, nodes[n].count, rings);
        if (rate >= group->inside_bytes_per_s) continue;
        group->inside_bytes_per_s = rate;
        group->inside_frac = rate / in_file[n];
    }
}

/* Writes the ranks of `nodes`, the first node of each kind (if all nodes are of one kind, the first
 * two_nodes ranks, those of the first two nodes) to *some, which the caller frees; returns their
 * number. */
static int ranks_of(const one_node *nodes, int count, const dl_place *ranks, int two_nodes,
                    dl_place **some)
{
    int all = 0;
    for (int n = 0; n < count; n++)
        all += nodes[n].count;
    if (count == 1) all = two_nodes;
    *some = dl_calloc((size_t)all, sizeof **some, "ranks of kinds of nodes");
    int found = 0;
    for (int n = 0; n < count && count > 1; n++) {
        for (int r = 0; r < nodes[n].count; r++)
            (*some)[found++] = nodes[n].ranks[r];
    }
    for (int r = found; r < all; r++)
        (*some)[r] = ranks[r];
    return all;
}

void dl_nccl_group_init(dl_nccl_group *group, const dl_links *links, const dl_place *ranks,
                        int count)
{
    const dl_machine *m = links->machine;
    dl_links nominal;
    dl_links_in_file(links, &nominal);
    DL_AUTOFREE one_node *nodes = dl_calloc((size_t)m->kind_count, sizeof *nodes, "kinds of nodes");
    const int kinds = find_kinds(m, ranks, count, nodes), minor = dl_machine_nccl(m);
    *group = (dl_nccl_group){.ranks = count,
                             .nodes = 1,
                             .minor = minor > 0 ? minor : DL_NCCL_DEFAULT_MINOR,
                             .amd = nodes[0].kind->amd,
                             .sums = true,
                             .inside_bytes_per_s = INFINITY,
                             .inside_frac = 1};
    int two_nodes = 0, rings = 1;
    double capability = INFINITY;
    for (int r = 0; r < count; r++) {
        if (r > 0 && ranks[r].node != ranks[r - 1].node) group->nodes++;
        two_nodes += group->nodes <= 2;
        capability =
            fmin(capability,
                 dl_machine_model(m, ranks[r].node, ranks[r].index)->compute_capability.value);
    }
    group->before_volta = capability > 0 && capability < 7;
    group->nvlink = all_by_nvlink(nodes, kinds);
    group->generation = capability >= 10 ? 3 : capability >= 9 ? 2 : capability >= 8 ? 1 : 0;
    for (int n = 0; n < kinds; n++)
        group->sums &= nodes[n].kind->nvswitch_link >= 0 && nodes[n].kind->nvswitch_sum_frac.known;
    measure_inside(group, &nominal, nodes, kinds, capability, &rings);
    group->ring_bytes_per_s = group->inside_bytes_per_s;
    if (group->nodes > 1) {
        DL_AUTOFREE dl_place *some = NULL;
        const int some_count = ranks_of(nodes, kinds, ranks, two_nodes, &some);
        group->ring_bytes_per_s = rings_rate(&nominal, some, some_count, &rings);
    }
    group->tree_bytes_per_s = group->ring_bytes_per_s;
    if (group->nodes == 2) {
        group->tree_bytes_per_s = fmin(group->inside_bytes_per_s, 2 * group->ring_bytes_per_s);
    }
    group->channels = channel_count(group, rings);
    const double alike = ll128_capability(m, ranks, count);
    group->simple_tree = true;
    group->ll128 = alike > 0;
    for (int n = 0; n < kinds; n++) {
        group->simple_tree &= has_simple_tree(group, &nominal, &nodes[n]);
        group->ll128 = group->ll128 && allows_ll128(group, &nominal, &nodes[n], alike);
    }
    dl_links_free_limited(&nominal);
}

/* --- bandwidths ------------------------------------------------------------------------------ */

/* Limits per channel of NVLS trees (2.28), by generation and for 1, 2 and more nodes. */
static const double nvls_tree_most[DL_NCCL_GENERATIONS][3] = {
    {26.5, 18.5, 10}, {24, 23.6, 17.8}, {INFINITY, 57.7, 45.5}, {INFINITY, 96, 80}};

static int nodes_index(const dl_nccl_group *g)
{
    return g->nodes <= 2 ? g->nodes - 1 : 2;
}

/* The fraction of the links' rate that the protocol reaches. */
static double bandwidth_frac(const dl_nccl_group *g, const dl_nccl_constants *k,
                             dl_collective_kind kind, dl_nccl_algorithm algorithm,
                             dl_nccl_protocol protocol)
{
    const int at = nodes_index(g), of = g->generation;
    const double per_channel = g->channels * 1e9;
    const double ll = k->most->ll[g->nodes == 1 ? of : g->amd ? 1 : 0][at] * 1e9;
    if (algorithm == DL_NCCL_NVLS || algorithm == DL_NCCL_NVLS_TREE) return 1;
    const bool ring = algorithm == DL_NCCL_RING;
    const double bus = ring ? g->ring_bytes_per_s : g->tree_bytes_per_s;
    const double all = fmin(1, k->bus_most[of] * 1e9 / bus);
    if (ring) {
        const bool sums = kind == DL_ALLREDUCE || kind == DL_REDUCE;
        if (protocol == DL_NCCL_LL)
            return fmin(ll / bus, all * (g->nodes > 1 || sums ? 1 / 4.0 : 1 / 3.0));
        if (protocol == DL_NCCL_SIMPLE) return all;
        return fmin(all * (g->ranks < 2 * g->nodes ? 0.7 : 0.92),
                    per_channel * k->most->ll128_ring[of][at] / bus);
    }
    double frac = fmin(all * k->tree_frac, per_channel * k->most->tree[of][at] / bus);
    if (protocol == DL_NCCL_LL) frac = fmin(frac * k->tree_ll_frac, ll / bus);
    if (protocol == DL_NCCL_LL128) {
        frac = fmin(frac * (g->nodes == 1 ? 7.0 / 9 : k->tree_ll128_frac),
                    per_channel * k->most->ll128_tree[of][at] / bus);
    }
    return g->simple_tree ? k->simple_tree_frac * frac : frac;
}

static int steps_of(dl_collective_kind kind, int ranks)
{
    if (kind == DL_ALLREDUCE) return 2 * (ranks - 1);
    return kind == DL_ALLGATHER || kind == DL_REDUCE_SCATTER ? ranks - 1 : ranks;
}

/* Bandwidth of NVLS within a node: one channel per GPU, no wider than other channels. The GPU at
 * the head of a channel counts twice, so that the links of n GPUs carry each of n channels n + 1
 * times (search.cc, ncclTopoSearchTryNvls). */
static double nvls_inside(const dl_nccl_group *g)
{
    const double gpus = (double)g->ranks / g->nodes;
    const double widest = widest_gb_per_s[g->generation][g->nodes > 1] * 1e9;
    return gpus * fmin(widest, g->inside_bytes_per_s / (gpus + 1));
}

/* Bandwidth of sums in the switches, over trees between n nodes: up to 2.27 a fraction of the
 * channels' rate; since 2.28 twice the switches' rate as bus bandwidth, converted as for a ring. */
static double nvls_bandwidth(const dl_nccl_group *g, const dl_nccl_constants *k, bool tree)
{
    const double gpus = (double)g->ranks / g->nodes;
    if (k->nvls_part > 0) {
        const double between = tree ? g->ring_bytes_per_s / (g->nodes > 2 ? 2 : 1) : INFINITY;
        const double inside = k->minor < 18 ? g->ring_bytes_per_s : nvls_inside(g);
        return fmin(fmin(inside, k->bus_most[g->generation] * 1e9), between) * k->nvls_part;
    }
    const double twice = 2 * dl_nccl_nvls_efficiency[g->generation] * (gpus - 1) / gpus;
    const double between = tree ? g->ring_bytes_per_s * (g->nodes > 2 ? 1 : 2) : INFINITY;
    const double most = tree ? nvls_tree_most[g->generation][nodes_index(g)] * 1e9 : INFINITY;
    return fmin(fmin(twice * nvls_inside(g), between), gpus * most) * g->ranks /
           steps_of(DL_ALLREDUCE, g->ranks);
}

/* Bandwidth for bytes as counted by nccl-tests. */
static double bandwidth(const dl_nccl_group *g, const dl_nccl_constants *k, dl_collective_kind kind,
                        dl_nccl_algorithm algorithm, dl_nccl_protocol protocol)
{
    const double frac = bandwidth_frac(g, k, kind, algorithm, protocol);
    switch (algorithm) {
    case DL_NCCL_RING: return frac * g->ring_bytes_per_s * g->ranks / steps_of(kind, g->ranks);
    case DL_NCCL_NVLS: return nvls_bandwidth(g, k, false);
    case DL_NCCL_NVLS_TREE: return nvls_bandwidth(g, k, true);
    default: return frac * g->tree_bytes_per_s / 2;
    }
}

/* --- latencies ------------------------------------------------------------------------------- */

/* The sender's cost of a message over the network. */
static double post_us(const dl_nccl_group *g, const dl_nccl_constants *k, dl_nccl_protocol protocol)
{
    if (g->nodes == 1 || !k->posts) return 0;
    return (g->amd ? 2 : 1) * (protocol == DL_NCCL_SIMPLE ? 3 : 1);
}

static double inner_hop_us(const dl_nccl_group *g, const dl_nccl_constants *k,
                           dl_nccl_algorithm algorithm, dl_nccl_protocol protocol)
{
    const double us = k->hop_us[g->nvlink ? DL_NCCL_NVLINK : DL_NCCL_PCI][algorithm][protocol];
    return protocol == DL_NCCL_LL && g->nodes > 1 ? k->ll_inner_factor * us : us;
}

static double outer_hop_us(const dl_nccl_group *g, const dl_nccl_constants *k,
                           dl_nccl_algorithm algorithm, dl_nccl_protocol protocol)
{
    const bool lone = k->lone_by_trees && g->ranks == g->nodes;
    return k->hop_us[DL_NCCL_NET][lone ? DL_NCCL_TREE : algorithm][protocol];
}

static double latency_us(const dl_nccl_group *g, const dl_nccl_constants *k,
                         dl_collective_kind kind, dl_nccl_algorithm algorithm,
                         dl_nccl_protocol protocol)
{
    const double inner = inner_hop_us(g, k, algorithm, protocol);
    const double outer = outer_hop_us(g, k, algorithm, protocol);
    const double call = k->call_us[algorithm][protocol];
    if (algorithm == DL_NCCL_NVLS) return call + inner;
    if (algorithm == DL_NCCL_NVLS_TREE) return inner + 2 * floor(log2(g->nodes)) * outer;
    if (algorithm == DL_NCCL_TREE) {
        return call + 2 * ((g->ranks / g->nodes - 1) * inner + floor(log2(g->nodes)) * outer);
    }
    if (kind == DL_BROADCAST || kind == DL_REDUCE) return call + (g->nodes > 1 ? outer : inner);
    const int steps = steps_of(kind, g->ranks);
    int outer_steps = kind == DL_ALLREDUCE ? 2 * g->nodes - k->outer_steps_less : g->nodes - 1;
    if (g->nodes == 1) outer_steps = 0;
    if (g->nodes > 1 && k->all_outer) outer_steps = steps;
    return call + (steps - outer_steps) * fmax(inner, post_us(g, k, protocol)) +
           outer_steps * outer;
}

/* --- the choice ------------------------------------------------------------------------------ */

/* Whether the version has this combination: LL128 since 2.5 on Volta, 2.7 on Ampere, 2.17 on
 * Hopper, 2.26 on Blackwell; sums in the switch of one node since 2.17, of several nodes since
 * 2.18. */
static bool has(const dl_nccl_group *g, dl_collective_kind kind, dl_nccl_algorithm algorithm,
                dl_nccl_protocol protocol)
{
    static const int ll128_since[DL_NCCL_GENERATIONS] = {5, 7, 17, 26};
    if (kind == DL_ALLTOALL) return false;
    if (protocol == DL_NCCL_LL128 && (!g->ll128 || g->minor < ll128_since[g->generation]))
        return false;
    if (algorithm == DL_NCCL_RING) return true;
    if (kind != DL_ALLREDUCE) return false;
    if (algorithm == DL_NCCL_TREE) return true;
    const bool tree = algorithm == DL_NCCL_NVLS_TREE;
    return g->sums && protocol == DL_NCCL_SIMPLE && tree == (g->nodes > 1) &&
           g->minor >= (tree ? 18 : 17);
}

/* The fraction of its bandwidth that a tree reaches at this size. */
static double correction(const dl_nccl_constants *k, dl_nccl_algorithm algorithm,
                         dl_nccl_protocol protocol, double bytes)
{
    const int size = bytes < 64 ? 0 : (int)floor(log2(floor(bytes / 64)));
    return algorithm == DL_NCCL_TREE && size < DL_NCCL_CORRECTED_SIZES
               ? k->correction[protocol][size]
               : 1;
}

static bool on_plateau(const dl_nccl_group *g, const dl_nccl_constants *k, double bytes)
{
    if (k->plateau_bytes > 0) return bytes / g->ranks >= k->plateau_bytes;
    return bytes / (g->channels * (double)g->ranks) >= PLATEAU_BYTES;
}

double dl_nccl_time_ns(const dl_nccl_group *g, dl_collective_kind kind, double bytes,
                       dl_nccl_algorithm algorithm, dl_nccl_protocol protocol)
{
    const dl_nccl_constants *k = dl_nccl_constants_of(g->minor);
    if (!has(g, kind, algorithm, protocol)) return INFINITY;
    const double rate =
        bandwidth(g, k, kind, algorithm, protocol) * correction(k, algorithm, protocol, bytes);
    double us = latency_us(g, k, kind, algorithm, protocol);
    if (algorithm == DL_NCCL_RING && protocol == DL_NCCL_SIMPLE && g->nodes > 1 &&
        kind == DL_ALLREDUCE && on_plateau(g, k, bytes)) {
        us *= k->plateau[g->generation];
    }
    return us * 1e3 + bytes / rate * 1e9;
}

/* NCCL 2.4 (src/init.cc, ncclTreeThreshold): largest size for which all-reduces use trees, from
 * that version's latencies and a rate of 5 GB/s, with NVLink per channel. */
static double tree_threshold(const dl_nccl_group *g)
{
    const double ring = g->nvlink ? 5000.0 * g->channels : 5000; /* bytes per us */
    const double tree = !g->nvlink ? ring * 2 / 3 : ring * 3 / 4 * (g->nodes == 2 ? 2 : 1);
    const double ring_us = 6.0 * (g->ranks - 1);
    const double tree_us = 15 * floor(log2(g->nodes)) + 4.0 * (g->ranks / g->nodes - 1);
    if (g->nodes < 2 || ring_us <= tree_us) return 0;
    return tree > ring ? INFINITY : ring * tree / (ring - tree) * (ring_us - tree_us);
}

/* NCCL 2.4 (src/enqueue.cc, getKernelInfo): largest size for which calls use LL, with 256 threads
 * per channel. */
static double ll_threshold(const dl_nccl_group *g, dl_collective_kind kind, bool tree)
{
    const bool chain = tree || kind == DL_BROADCAST || kind == DL_REDUCE;
    const double of_thread = (g->before_volta ? 32 : 64) * (g->nodes > 1 ? 2 : 1) * (tree ? 4 : 1);
    return g->channels * 256.0 * (chain ? 1 : g->ranks) * of_thread;
}

static bool choose_by_thresholds(const dl_nccl_group *g, dl_collective_kind kind, double bytes,
                                 unsigned algorithms, dl_nccl_algorithm *algorithm,
                                 dl_nccl_protocol *protocol)
{
    const bool can_tree = kind == DL_ALLREDUCE && algorithms & 1u << DL_NCCL_TREE;
    const bool can_ring = kind != DL_ALLTOALL && algorithms & 1u << DL_NCCL_RING;
    const bool tree = can_tree && (!can_ring || bytes <= tree_threshold(g));
    *algorithm = tree ? DL_NCCL_TREE : DL_NCCL_RING;
    *protocol = bytes <= ll_threshold(g, kind, tree) ? DL_NCCL_LL : DL_NCCL_SIMPLE;
    return tree || can_ring;
}

bool dl_nccl_choose(const dl_nccl_group *group, dl_collective_kind kind, double bytes,
                    unsigned algorithms, dl_nccl_algorithm *algorithm, dl_nccl_protocol *protocol)
{
    double best_ns = INFINITY;
    if (group->minor < 5)
        return choose_by_thresholds(group, kind, bytes, algorithms, algorithm, protocol);
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

#define TIMES_MINOR 26 /* the version that was compared with nccl-tests; used for all versions */

/* Within a node the links have NCCL's rates; between nodes the ports are the limit. NCCL's hop
 * times are complete: those within a node include the latency of its links, those between nodes
 * that of InfiniBand. */
dl_hop_costs dl_nccl_costs(const dl_nccl_group *g, dl_collective_kind kind, double bytes,
                           dl_nccl_algorithm algorithm, dl_nccl_protocol protocol)
{
    const dl_nccl_constants *k = dl_nccl_constants_of(TIMES_MINOR);
    const bool chunks = algorithm == DL_NCCL_TREE && protocol == DL_NCCL_SIMPLE;
    const bool nvls = algorithm == DL_NCCL_NVLS || algorithm == DL_NCCL_NVLS_TREE;
    const double call = k->call_us[nvls ? DL_NCCL_RING : algorithm][protocol];
    const double links_frac = g->nodes == 1 && !nvls ? g->inside_frac : 1;
    const double part = chunks ? 1 : correction(k, algorithm, protocol, bytes);
    const double outer = outer_hop_us(g, k, algorithm, protocol);
    double inner = inner_hop_us(g, k, algorithm, protocol);
    if (nvls) inner = (inner - call) / 2; /* half for the way up, half for the way down */
    return (dl_hop_costs){
        .launch_ns = call * 1e3,
        .hop_ns = inner * 1e3,
        .network_hop_ns = outer * 1e3,
        .network_message_ns = algorithm == DL_NCCL_RING ? post_us(g, k, protocol) * 1e3 : 0,
        .bandwidth_frac = links_frac * part * bandwidth_frac(g, k, kind, algorithm, protocol),
        .network_frac = 1,
        .held_ns = inner * 1e3,
        .network_held_ns = fmin(outer, REFERENCE_US) * 1e3,
    };
}
