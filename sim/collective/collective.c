#include "sim/collective/collective.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/names.h"
#include "common/units.h"
#include "sim/collective/nccl.h"
#include "sim/network/tcp.h"

const char *const dl_collective_kind_names[DL_COLLECTIVE_KINDS] = {
    "allreduce", "reduce", "broadcast", "allgather", "reducescatter", "alltoall"};
const char *const dl_fidelity_names[3] = {"phase", "chunk"};

static const dl_collective_algorithm *const algorithms[] = {
    &dl_collective_ring,         &dl_collective_tree,      &dl_collective_node_tree,
    &dl_collective_hierarchical, &dl_collective_two_level, &dl_collective_pairwise,
    &dl_collective_nvls,         &dl_collective_nvls_tree};
#define ALGORITHM_COUNT DL_LENGTH(algorithms)

/* Costs of a call with a protocol; without one, only the links' latencies and the host's cost of
 * messages. */
static dl_hop_costs protocol_costs(const dl_protocol *p)
{
    if (p == NULL) return (dl_hop_costs){.bandwidth_frac = 1, .network_frac = 1};
    return (dl_hop_costs){.launch_ns = p->launch_ns.value,
                          .hop_ns = p->hop_ns.value,
                          .network_hop_ns = p->network_hop_ns.value,
                          .bandwidth_frac = p->bandwidth_frac.value,
                          .network_frac = 1};
}

/* Whether data move in one direction only, between two ranks. */
static bool is_one_way(const dl_collective_config *config)
{
    return config->rank_count == 2 && (config->kind == DL_BROADCAST || config->kind == DL_REDUCE);
}

static void make_plan(const dl_collective_algorithm *algorithm, dl_plan *plan,
                      const dl_collective_config *config)
{
    plan->is_whole |= plan->network->is_uncontended;
    plan->one_way = is_one_way(config);
    algorithm->plan(plan, config);
}

/* Arguments for dl_plan.make. */
typedef struct remaking {
    const dl_collective_algorithm *algorithm;
    const dl_collective_config *config;
} remaking;

static void make_again(dl_plan *plan, const void *how)
{
    const remaking *of = how;
    make_plan(of->algorithm, plan, of->config);
}

static void make_collective_again(dl_plan *plan, const void *how)
{
    const dl_collective *of = how;
    make_plan(of->algorithm, plan, &of->config);
}

/* Keeps a copy of the configuration, from which a folded plan can be rebuilt. */
static void keep_config(dl_collective *c, const dl_collective_config *config)
{
    if (c->plan.fold == NULL) return;
    const size_t bytes = (size_t)config->rank_count * sizeof *c->ranks;
    c->ranks = dl_calloc(1, bytes, "ranks of a collective");
    memcpy(c->ranks, config->ranks, bytes);
    c->config = *config;
    c->config.ranks = c->ranks;
    c->plan.make = make_collective_again;
    c->plan.how = c;
}

/* Time of the algorithm on an idle machine. */
static double idle_ns(const dl_links *links, const dl_collective_config *config,
                      const dl_collective_algorithm *algorithm, const dl_hop_costs *costs)
{
    DL_SCOPED(dl_engine) engine;
    DL_SCOPED(dl_network) network;
    DL_SCOPED(dl_plan) plan;
    dl_network_init(&network, &engine, 1);
    dl_network_add_links(&network, links);
    dl_plan_init(&plan, &network, links, costs);
    make_plan(algorithm, &plan, config);
    const remaking how = {algorithm, config};
    plan.make = make_again;
    plan.how = &how;
    dl_network_reserve(&network, plan.transfer_count);
    dl_engine_init(&engine, 2 * plan.transfer_count + 2);
    dl_plan_run(&plan, NULL, NULL, 0);
    dl_engine_run(&engine);
    return engine.too_long ? (double)DL_NS_MAX
                           : (double)engine.now_ns + (double)dl_ns_ceil(costs->launch_ns);
}

typedef struct choice {
    const dl_collective_algorithm *algorithm;
    const char *protocol; /* NULL = no protocol */
    dl_hop_costs costs;
    double time_ns; /* on the idle machine, for comparing choices; NaN: not yet computed */
} choice;

static bool can_do(const dl_collective_algorithm *algorithm, const dl_links *links,
                   const dl_collective_config *config)
{
    return algorithm->supports(config) &&
           (algorithm->available == NULL || algorithm->available(links, config));
}

static dl_status find_algorithm(const dl_links *links, const dl_collective_config *config,
                                const dl_collective_algorithm **found, dl_error *err)
{
    const char *names[ALGORITHM_COUNT + 1];
    for (size_t i = 0; i < ALGORITHM_COUNT; i++)
        names[i] = algorithms[i]->name;
    names[ALGORITHM_COUNT] = "auto";
    int index = dl_names_find(config->algorithm, names, ALGORITHM_COUNT + 1);
    if (index < 0) {
        char hint[256];
        dl_names_hint(hint, sizeof hint, config->algorithm, names, ALGORITHM_COUNT + 1);
        return dl_error_set(err, DL_ERR_NAME, "unknown algorithm '%s'%s", config->algorithm, hint);
    }
    *found = index < (int)ALGORITHM_COUNT ? algorithms[index] : NULL;
    if (dl_collective_two_level.supports(config)) *found = &dl_collective_two_level;
    if (*found == NULL || config->rank_count == 1 || can_do(*found, links, config)) return DL_OK;
    return dl_error_set(err, DL_ERR_UNSUPPORTED, "%s cannot do %s for these ranks on this machine",
                        config->algorithm, dl_collective_kind_names[config->kind]);
}

/* Whether a [protocol] of the machine file has the name. It applies to all algorithms or, as "NAME
 * ring", "NAME tree", to one algorithm, for which it takes precedence. */
static bool has_name(const dl_protocol *p, const char *name)
{
    const size_t length = strlen(name);
    return strncmp(p->name, name, length) == 0 &&
           (p->name[length] == '\0' || p->name[length] == ' ');
}

static bool is_for(const dl_protocol *p, const dl_collective_algorithm *algorithm)
{
    const char *space = strchr(p->name, ' ');
    const bool tree = algorithm == &dl_collective_tree || algorithm == &dl_collective_node_tree;
    return space == NULL || strcmp(space + 1, algorithm == &dl_collective_ring ? "ring"
                                              : tree                           ? "tree"
                                                                               : "") == 0;
}

static bool is_ll(const dl_protocol *p)
{
    return has_name(p, "ll") || has_name(p, "ll128");
}

static const dl_protocol *find_protocol(const dl_machine *m, const char *name,
                                        const dl_collective_algorithm *algorithm)
{
    const dl_protocol *found = NULL;
    for (int i = 0; i < m->protocol_count; i++) {
        const dl_protocol *p = &m->protocols[i];
        if (!has_name(p, name) || !is_for(p, algorithm)) continue;
        if (found == NULL || strchr(p->name, ' ') != NULL) found = p;
    }
    return found;
}

static bool takes_protocol(const dl_collective_algorithm *algorithm, const dl_machine *m, bool ll)
{
    bool has_other = dl_machine_nccl(m) > 0;
    for (int i = 0; i < m->protocol_count; i++)
        has_other |= !is_ll(&m->protocols[i]);
    return !algorithm->simple_only || !has_other || !ll;
}

/* Makes the algorithm and protocol the best choice if they are the first or the fastest so far. */
static void consider(const dl_links *links, const dl_collective_config *config,
                     const dl_collective_algorithm *algorithm, const char *protocol,
                     dl_hop_costs costs, choice *best)
{
    costs.message_ns = config->message_ns;
    if (best->algorithm == NULL) {
        *best = (choice){algorithm, protocol, costs, (double)NAN};
        return;
    }
    if (isnan(best->time_ns)) best->time_ns = idle_ns(links, config, best->algorithm, &best->costs);
    const double time_ns = idle_ns(links, config, algorithm, &costs);
    if (time_ns < best->time_ns) *best = (choice){algorithm, protocol, costs, time_ns};
}

/* Considers all protocols of the machine file for the algorithm. */
static void consider_protocols(const dl_links *links, const dl_collective_config *config,
                               const dl_collective_algorithm *algorithm, choice *best)
{
    const dl_machine *m = links->machine;
    if (m->protocol_count == 0) {
        consider(links, config, algorithm, NULL, protocol_costs(NULL), best);
    }
    for (int p = 0; p < m->protocol_count; p++) {
        const dl_protocol *own = &m->protocols[p];
        char name[DL_PROTOCOL_NAME_BYTES];
        (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(own->name, " "), own->name);
        if (find_protocol(m, name, algorithm) != own || !takes_protocol(algorithm, m, is_ll(own)))
            continue;
        consider(links, config, algorithm, own->name, protocol_costs(own), best);
    }
}

/* --- NCCL ------------------------------------------------------------------------------------- */

/* Costs of NCCL's protocol: the machine file's if given, otherwise NCCL's constants. */
static dl_hop_costs nccl_costs(const dl_machine *m, const dl_nccl_group *group,
                               const dl_collective_config *config,
                               const dl_collective_algorithm *planned, dl_nccl_algorithm algorithm,
                               dl_nccl_protocol protocol)
{
    const dl_protocol *given = find_protocol(m, dl_nccl_protocol_names[protocol], planned);
    if (given != NULL) return protocol_costs(given);
    return dl_nccl_costs(group, config->kind, config->bytes, algorithm, protocol);
}

/* Bit mask of NCCL's algorithms that `only` allows; NULL: all. */
static unsigned nccl_algorithms(const dl_links *links, const dl_collective_config *config,
                                const dl_collective_algorithm *only)
{
    unsigned set = 0;
    if (only == NULL || only == &dl_collective_ring) set |= 1u << DL_NCCL_RING;
    if (only == &dl_collective_tree || only == &dl_collective_node_tree ||
        (only == NULL && can_do(&dl_collective_node_tree, links, config))) {
        set |= 1u << DL_NCCL_TREE;
    }
    if ((only == NULL || only == &dl_collective_nvls) &&
        can_do(&dl_collective_nvls, links, config)) {
        set |= 1u << DL_NCCL_NVLS;
    }
    if ((only == NULL || only == &dl_collective_nvls_tree) &&
        can_do(&dl_collective_nvls_tree, links, config)) {
        set |= 1u << DL_NCCL_NVLS_TREE;
    }
    return set;
}

/* Chooses by NCCL's tuning model. An algorithm that NCCL does not have, or not for this collective,
 * uses the fastest of NCCL's protocols; an all-to-all, the one for the size of its messages. */
static void choose_as_nccl(const dl_links *links, const dl_collective_config *config,
                           const dl_collective_algorithm *only, choice *best)
{
    const dl_machine *m = links->machine;
    dl_nccl_group group;
    dl_nccl_algorithm algorithm = DL_NCCL_RING;
    dl_nccl_protocol protocol = DL_NCCL_SIMPLE;
    dl_nccl_group_init(&group, links, config->ranks, config->rank_count);
    const unsigned set = nccl_algorithms(links, config, only);
    if (dl_nccl_choose(&group, config->kind, config->bytes, set, &algorithm, &protocol)) {
        const dl_collective_algorithm *own[] = {[DL_NCCL_TREE] = &dl_collective_node_tree,
                                                [DL_NCCL_RING] = &dl_collective_ring,
                                                [DL_NCCL_NVLS] = &dl_collective_nvls,
                                                [DL_NCCL_NVLS_TREE] = &dl_collective_nvls_tree};
        if (only != NULL) own[algorithm] = only;
        *best =
            (choice){.algorithm = own[algorithm],
                     .protocol = dl_nccl_protocol_names[protocol],
                     .costs = nccl_costs(m, &group, config, own[algorithm], algorithm, protocol)};
        best->costs.message_ns = config->message_ns;
        return;
    }
    if (only == NULL) only = &dl_collective_pairwise;
    for (int p = 0; p < DL_NCCL_PROTOCOLS; p++) {
        if (p == DL_NCCL_LL128 && !group.ll128) continue;
        if (config->kind == DL_ALLTOALL && p != (int)dl_nccl_sends_by(config->bytes / group.ranks))
            continue;
        if (!takes_protocol(only, m, p != DL_NCCL_SIMPLE)) continue;
        consider(links, config, only, dl_nccl_protocol_names[p],
                 nccl_costs(m, &group, config, only, DL_NCCL_RING, (dl_nccl_protocol)p), best);
    }
}

/* Whether all ranks are GPUs; otherwise NCCL cannot be used, as some ranks are hosts' memories. */
static bool all_are_gpus(const dl_collective_config *config)
{
    for (int r = 0; r < config->rank_count; r++)
        if (config->ranks[r].kind != DL_PLACE_GPU) return false;
    return true;
}

/* Chooses algorithm and protocol: by NCCL's rules between GPUs of a machine that names a version of
 * NCCL, otherwise the fastest pair in the phase model. Does not depend on the run's fidelity. */
static dl_status choose(const dl_links *links, const dl_collective_config *config, choice *best,
                        dl_error *err)
{
    const dl_collective_algorithm *only = NULL;
    dl_status status = find_algorithm(links, config, &only, err);
    if (status != DL_OK) return status;
    dl_collective_config phases = *config;
    phases.fidelity = DL_FIDELITY_PHASE;
    *best = (choice){.costs = protocol_costs(NULL), .time_ns = (double)NAN};
    if (config->rank_count == 1) return DL_OK;
    if (dl_machine_nccl(links->machine) > 0 && all_are_gpus(config)) {
        choose_as_nccl(links, &phases, only, best);
        return DL_OK;
    }
    for (size_t i = 0; i < ALGORITHM_COUNT; i++) {
        const dl_collective_algorithm *a = algorithms[i];
        if (only != NULL && a != only) continue;
        if (!can_do(a, links, config)) continue;
        if (only == NULL && a->automatic != NULL && !a->automatic(config)) continue;
        consider_protocols(links, &phases, a, best);
    }
    return DL_OK;
}

/* --- over TCP -------------------------------------------------------------------------------- */

/* Stores an edge at index `count`. If the array is full, the edge instead replaces the fastest
 * stored one if it is slower than that one. */
static void keep_edge(dl_tcp_edge *edges, int count, const dl_tcp_edge *edge)
{
    int at = count;
    if (count >= DL_TCP_NODES_MAX) {
        at = 0;
        for (int e = 1; e < DL_TCP_NODES_MAX; e++)
            if (edges[e].bytes_per_s > edges[at].bytes_per_s) at = e;
        if (edges[at].bytes_per_s <= edge->bytes_per_s) return;
    }
    edges[at] = *edge;
}

/* Finds the edges between consecutive nodes of the ranks, without the factor on TCP's times: at
 * most DL_TCP_NODES_MAX, the slowest ones if they differ. Sets the number of rings that share the
 * bytes; returns the number of nodes. */
static int tcp_edges(const dl_links *links, const dl_collective_config *config, dl_tcp_edge *edges,
                     int *rings)
{
    const int count = config->rank_count;
    const dl_machine *m = links->machine;
    const bool unlike = dl_machine_has_unlike_nodes(m);
    int nodes = 0, of_first = 0, nics = INT32_MAX;
    for (int r = 0; r < count; r++) {
        const dl_place from = config->ranks[r], to = config->ranks[(r + 1) % count];
        of_first += from.node == config->ranks[0].node;
        const int of_node = dl_machine_node(m, from.node)->nic_count;
        if (of_node < nics) nics = of_node;
        if (from.node == to.node) continue;
        if (nodes < DL_TCP_NODES_MAX || unlike) {
            dl_route route;
            dl_links_route_collective(links, from, to, is_one_way(config), &route);
            const double factor = m->tcp.time_factor;
            const dl_tcp_edge edge = {dl_links_route_rate(links, &route) * factor,
                                      route.latency_ns / factor};
            keep_edge(edges, nodes, &edge);
        }
        nodes++;
    }
    *rings = nics < of_first ? nics : of_first;
    return nodes;
}

/* Time in ns of the collective over TCP, including the host's costs; 0 if it stays in one node or
 * has no bytes. */
static double tcp_ns(const dl_links *links, const dl_collective_config *config,
                     const dl_hop_costs *costs)
{
    dl_tcp_edge edges[DL_TCP_NODES_MAX];
    int rings = 1;
    const bool broadcast = config->kind == DL_BROADCAST;
    const int nodes = tcp_edges(links, config, edges, &rings);
    if (nodes < 2 || config->bytes <= 0) return 0;
    const int simulated = nodes < DL_TCP_NODES_MAX ? nodes : DL_TCP_NODES_MAX;
    const dl_tcp_ring ring = {.tcp = &links->machine->tcp,
                              .edges = edges,
                              .nodes = simulated,
                              .broadcast = broadcast,
                              .bytes = config->bytes / rings,
                              .gloo = config->ranks[0].kind == DL_PLACE_HOST,
                              .pause_ns = config->pause_ns};
    const double sent = broadcast ? 1 : 2.0 * (nodes - 1) / nodes;
    const double sent_simulated = broadcast ? 1 : 2.0 * (simulated - 1) / simulated;
    const int hops = (broadcast ? 1 : 2) * (nodes - 1);
    return dl_tcp_ring_ns(&ring) * links->machine->tcp.time_factor * sent / sent_simulated +
           costs->launch_ns + hops * (costs->network_hop_ns + config->message_ns);
}

#define SEARCH_STEPS 40
#define LEAST_FRAC 1e-6

/* The fraction of the rates between nodes with which a ring takes as long as TCP simulated packet
 * by packet; at most the payload's fraction, which all-to-all uses; 1 without [tcp] or within a
 * node. The ring is a broadcast, or an all-reduce for all other kinds, among all ranks or, with two
 * levels, one rank of each group. */
static double network_frac(const dl_links *links, const dl_collective_config *config,
                           const choice *best)
{
    if (!links->machine->tcp.given || best->algorithm == NULL) return 1;
    if (config->kind == DL_ALLTOALL) return dl_tcp_payload_frac(&links->machine->tcp);
    dl_collective_config ring = *config;
    ring.fidelity = DL_FIDELITY_PHASE;
    ring.kind = config->kind == DL_BROADCAST ? DL_BROADCAST : DL_ALLREDUCE;
    ring.root = 0;
    const int step = best->algorithm == &dl_collective_two_level ? config->equal_ranks : 1;
    ring.rank_count = config->rank_count / step;
    ring.bytes = config->bytes / step;
    DL_AUTOFREE dl_place *ranks =
        dl_calloc((size_t)ring.rank_count, sizeof *ranks, "ranks of a ring between groups");
    for (int r = 0; r < ring.rank_count; r++)
        ranks[r] = config->ranks[r * step];
    ring.ranks = ranks;
    const double wanted_ns = tcp_ns(links, &ring, &best->costs);
    double low = log(LEAST_FRAC), high = log(dl_tcp_payload_frac(&links->machine->tcp));
    for (int i = 0; i < SEARCH_STEPS && wanted_ns > 0; i++) {
        const double middle = (low + high) / 2;
        dl_hop_costs costs = best->costs;
        costs.network_frac = exp(middle);
        const bool slower = idle_ns(links, &ring, &dl_collective_ring, &costs) > wanted_ns;
        *(slower ? &low : &high) = middle;
    }
    return wanted_ns > 0 ? exp(high) : 1;
}

/* --- whole collectives that were measured ---------------------------------------------------- */

const dl_collective_cost *dl_collective_cost_find(const dl_collective_cost *costs, size_t count,
                                                  int kind, int ranks, int nodes)
{
    for (size_t i = 0; i < count; i++) {
        const dl_collective_cost *c = &costs[i];
        if (c->kind == kind && c->ranks == ranks && (c->nodes == 0 || c->nodes == nodes)) return c;
    }
    return NULL;
}

double dl_collective_cost_ns(const dl_collective_cost *cost, double bytes)
{
    const dl_collective_time *times = cost->times;
    size_t high = 1;
    while (high + 1 < cost->count && times[high].bytes < bytes)
        high++;
    const dl_collective_time *a = &times[high - 1], *b = &times[high];
    const double factor = cost->factor > 0 ? cost->factor : 1;
    if (bytes <= times[0].bytes) return factor * times[0].time_ns.value;
    const double share = (bytes - a->bytes) / (b->bytes - a->bytes);
    return factor * fmax(0, a->time_ns.value + share * (b->time_ns.value - a->time_ns.value));
}

/* The measured time of the collective in ns; negative if none applies. */
static double measured_ns(const dl_collective_config *config)
{
    int nodes = config->rank_count > 0;
    if (strcmp(config->algorithm, "auto") != 0 || config->equal_ranks > 0) return -1;
    for (int r = 1; r < config->rank_count; r++)
        nodes += config->ranks[r].node != config->ranks[r - 1].node;
    const dl_collective_cost *cost = dl_collective_cost_find(
        config->measured, config->measured_count, (int)config->kind, config->rank_count, nodes);
    return cost != NULL ? dl_collective_cost_ns(cost, config->bytes) : -1;
}

/* Names the keys to change for fewer transfers. */
static const char *fewer_transfers(dl_fidelity fidelity)
{
    return fidelity == DL_FIDELITY_CHUNK
               ? "use [exchange] fidelity = phase, or a larger bucket_bytes"
               : "use a larger [exchange] bucket_bytes";
}

static dl_status check_size(dl_plan *plan, const dl_collective_config *config,
                            const dl_collective_algorithm *algorithm, dl_error *err)
{
    DL_SCOPED(dl_plan) counted = {0};
    if (config->transfers_max <= 0 || algorithm == NULL) return DL_OK;
    dl_plan_init(&counted, plan->network, plan->links, &plan->costs);
    counted.counts_only = true;
    make_plan(algorithm, &counted, config);
    const int count = counted.transfer_count;
    if (count <= config->transfers_max) return DL_OK;
    return dl_error_set(err, DL_ERR_RANGE,
                        "[exchange] fidelity = %s: %s over %d GPUs by %s has %d transfers, and "
                        "there is room for %d more; %s, or fewer workers",
                        dl_fidelity_names[config->fidelity], dl_collective_kind_names[config->kind],
                        config->rank_count, algorithm->name, count, config->transfers_max,
                        fewer_transfers(config->fidelity));
}

dl_status dl_collective_check_run(dl_fidelity fidelity, double transfers, double exchanges,
                                  dl_error *err)
{
    if (transfers * exchanges <= DL_TRANSFERS_RUN_MAX) return DL_OK;
    return dl_error_set(err, DL_ERR_RANGE,
                        "[exchange] fidelity = %s: %.0f transfers an exchange, %.0f exchanges: "
                        "%.3g transfers, more than %g in one run; %s, or fewer [scenario] steps",
                        dl_fidelity_names[fidelity], transfers, exchanges, transfers * exchanges,
                        DL_TRANSFERS_RUN_MAX, fewer_transfers(fidelity));
}

dl_status dl_collective_init(dl_collective *collective, dl_network *network, const dl_links *links,
                             const dl_collective_config *config, dl_error *err)
{
    DL_ASSERT(config->rank_count >= 1 && config->bytes >= 0 && config->chunk_bytes > 0 &&
                  config->root >= 0 && config->root < config->rank_count,
              "%d ranks, %g bytes, %g a chunk, root %d", config->rank_count, config->bytes,
              config->chunk_bytes, config->root);
    choice best;
    dl_status status = choose(links, config, &best, err);
    if (status != DL_OK) return status;
    *collective = (dl_collective){.algorithm = best.algorithm,
                                  .config = {.kind = config->kind, .bytes = config->bytes},
                                  .protocol = best.protocol,
                                  .rank_count = config->rank_count};
    best.costs.network_frac = network_frac(links, config, &best);
    dl_plan_init(&collective->plan, network, links, &best.costs);
    status = check_size(&collective->plan, config, best.algorithm, err);
    if (status != DL_OK) return status;
    collective->launch_ns = dl_ns_ceil(best.costs.launch_ns);
    if (best.algorithm != NULL) make_plan(best.algorithm, &collective->plan, config);
    keep_config(collective, config);
    const double whole_ns = measured_ns(config);
    collective->measured = whole_ns >= 0;
    if (collective->measured) collective->launch_ns = dl_ns_ceil(whole_ns);
    if (!collective->measured && best.algorithm != NULL) dl_plan_prepare(&collective->plan);
    return DL_OK;
}

void dl_collective_free(dl_collective *collective)
{
    dl_plan_free(&collective->plan);
    free(collective->ranks);
    *collective = (dl_collective){0};
}

double dl_collective_sent_bytes(const dl_collective *collective)
{
    const dl_plan *plan = &collective->plan;
    double sum = 0;
    for (int t = 0; t < plan->transfer_count; t++) {
        const dl_transfer *transfer = &plan->transfers[t];
        const double frac = transfer->leaves_node ? plan->costs.network_frac : 1;
        sum += transfer->bytes * plan->costs.bandwidth_frac * frac;
    }
    return plan->fold != NULL ? plan->fold->lines * sum : sum;
}

void dl_collective_on_done(dl_collective *collective, dl_event_fn done, void *user, int index)
{
    collective->done = done;
    collective->user = user;
    collective->index = index;
}

static void launched(void *user, int unused DL_UNUSED)
{
    dl_collective *c = user;
    if (c->measured) dl_network_end_timed(c->plan.network);
    if (c->algorithm != NULL && !c->measured) {
        dl_plan_run(&c->plan, c->done, c->user, c->index);
    } else if (c->done != NULL) {
        c->done(c->user, c->index);
    }
}

void dl_collective_arrive(dl_collective *collective)
{
    if (++collective->arrived < collective->rank_count) return;
    collective->arrived = 0;
    if (collective->measured) dl_network_begin_timed(collective->plan.network);
    dl_engine_after(collective->plan.network->engine, collective->launch_ns, launched, collective,
                    0);
}

dl_status dl_collective_idle_ns(const dl_links *links, const dl_collective_config *config,
                                double *time_ns, dl_error *err)
{
    choice best;
    dl_status status = choose(links, config, &best, err);
    if (status != DL_OK) return status;
    *time_ns = measured_ns(config);
    if (*time_ns >= 0) return DL_OK;
    *time_ns = 0;
    if (best.algorithm == NULL) return DL_OK;
    best.costs.network_frac = network_frac(links, config, &best);
    *time_ns = idle_ns(links, config, best.algorithm, &best.costs);
    return DL_OK;
}

dl_status dl_collective_choice(const dl_links *links, const dl_collective_config *config,
                               const char **algorithm, const char **protocol, dl_error *err)
{
    choice best;
    const dl_status status = choose(links, config, &best, err);
    if (status != DL_OK) return status;
    *algorithm = best.algorithm != NULL ? best.algorithm->name : NULL;
    *protocol = best.protocol;
    return DL_OK;
}
