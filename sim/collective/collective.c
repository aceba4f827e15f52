#include "sim/collective/collective.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/names.h"
#include "common/units.h"
#include "sim/network/tcp.h"

const char *const dl_collective_kind_names[DL_COLLECTIVE_KINDS] = {
    "allreduce", "reduce", "broadcast", "allgather", "reducescatter", "alltoall"};
const char *const dl_fidelity_names[3] = {"phase", "chunk"};

static const dl_collective_algorithm *const algorithms[] = {
    &dl_collective_ring,         &dl_collective_tree,      &dl_collective_node_tree,
    &dl_collective_hierarchical, &dl_collective_two_level, &dl_collective_pairwise,
    &dl_collective_nvls};
#define ALGORITHM_COUNT (sizeof algorithms / sizeof *algorithms)

/* What a call costs with one protocol; without any, nothing but the links' latencies and what the
 * messages cost the host. */
static dl_hop_costs protocol_costs(const dl_protocol *p, double message_ns)
{
    if (p == NULL) return (dl_hop_costs){message_ns, message_ns, message_ns, 1, 1};
    return (dl_hop_costs){p->hop_ns.value + message_ns, p->network_hop_ns.value + message_ns,
                          message_ns, p->bandwidth_frac.value, 1};
}

/* Time of the algorithm with the protocol on a machine on which nothing else moves, where ways
 * between nodes reach `network_frac` of their rates. */
static double idle_ns(const dl_links *links, const dl_collective_config *config,
                      const dl_collective_algorithm *algorithm, const dl_protocol *protocol,
                      double network_frac)
{
    dl_engine engine;
    dl_network network;
    dl_plan plan;
    dl_hop_costs costs = protocol_costs(protocol, config->message_ns);
    costs.network_frac = network_frac;
    dl_network_init(&network, &engine, 1);
    dl_network_add_links(&network, links);
    dl_plan_init(&plan, &network, links, &costs);
    algorithm->plan(&plan, config);
    dl_network_reserve(&network, plan.transfer_count);
    dl_engine_init(&engine, 2 * plan.transfer_count + 2);
    dl_plan_run(&plan, NULL, NULL, 0);
    dl_engine_run(&engine);
    double launch_ns = protocol != NULL ? protocol->launch_ns.value : 0;
    double time_ns =
        engine.too_long ? (double)DL_NS_MAX : (double)engine.now_ns + (double)dl_ns_ceil(launch_ns);
    dl_plan_free(&plan);
    dl_network_free(&network);
    dl_engine_free(&engine);
    return time_ns;
}

typedef struct choice {
    const dl_collective_algorithm *algorithm;
    const dl_protocol *protocol;
    double time_ns;
} choice;

static bool can_do(const dl_collective_algorithm *algorithm, const dl_links *links,
                   const dl_collective_config *config)
{
    return algorithm->supports(config) &&
           (algorithm->available == NULL || algorithm->available(links));
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

static bool is_ll(const dl_protocol *protocol)
{
    return strcmp(protocol->name, "ll") == 0 || strcmp(protocol->name, "ll128") == 0;
}

static bool takes_protocol(const dl_collective_algorithm *algorithm, const dl_machine *m, int p)
{
    bool has_other = false;
    for (int i = 0; i < m->protocol_count; i++)
        has_other |= !is_ll(&m->protocols[i]);
    return p >= m->protocol_count || !algorithm->simple_only || !has_other ||
           !is_ll(&m->protocols[p]);
}

/* The fastest algorithm and protocol of the machine, by phases, whatever the run's fidelity. */
static dl_status choose(const dl_links *links, const dl_collective_config *config, choice *best,
                        dl_error *err)
{
    const dl_machine *m = links->machine;
    const dl_collective_algorithm *only = NULL;
    dl_status status = find_algorithm(links, config, &only, err);
    if (status != DL_OK) return status;
    dl_collective_config phases = *config;
    phases.fidelity = DL_FIDELITY_PHASE;
    *best = (choice){.time_ns = INFINITY};
    for (size_t i = 0; i < ALGORITHM_COUNT && config->rank_count > 1; i++) {
        if (only != NULL && algorithms[i] != only) continue;
        if (!can_do(algorithms[i], links, config)) continue;
        if (only == NULL && algorithms[i]->automatic != NULL && !algorithms[i]->automatic(config)) {
            continue;
        }
        for (int p = 0; p < m->protocol_count || p == 0; p++) {
            if (!takes_protocol(algorithms[i], m, p)) continue;
            const dl_protocol *protocol = m->protocol_count > 0 ? &m->protocols[p] : NULL;
            const double time_ns = idle_ns(links, &phases, algorithms[i], protocol, 1);
            if (time_ns < best->time_ns) *best = (choice){algorithms[i], protocol, time_ns};
        }
    }
    return DL_OK;
}

/* --- over TCP -------------------------------------------------------------------------------- */

/* Ways between the nodes of the ranks, one after another, as they are without the factor on TCP's times,
 * at most DL_TCP_NODES_MAX of them, and how many rings share the bytes; returns how many nodes there
 * are. */
static int tcp_edges(const dl_links *links, const dl_collective_config *config, dl_tcp_edge *edges,
                     int *rings)
{
    const int count = config->rank_count;
    int nodes = 0, of_first = 0;
    for (int r = 0; r < count; r++) {
        const dl_place from = config->ranks[r], to = config->ranks[(r + 1) % count];
        of_first += from.node == config->ranks[0].node;
        if (from.node == to.node) continue;
        if (nodes < DL_TCP_NODES_MAX) {
            dl_route route;
            dl_links_route(links, from, to, &route);
            const double factor = links->machine->tcp.time_factor;
            edges[nodes] = (dl_tcp_edge){dl_links_route_rate(links, &route) * factor,
                                         route.latency_ns / factor};
        }
        nodes++;
    }
    *rings = links->machine->nic_count < of_first ? links->machine->nic_count : of_first;
    return nodes;
}

/* What the collective takes over TCP, with what the host costs; 0 if it does not leave its node. */
static double tcp_ns(const dl_links *links, const dl_collective_config *config,
                     const dl_protocol *protocol)
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
                              .bytes = config->bytes / rings};
    const double sent = broadcast ? 1 : 2.0 * (nodes - 1) / nodes;
    const double sent_simulated = broadcast ? 1 : 2.0 * (simulated - 1) / simulated;
    const double launch_ns = protocol != NULL ? protocol->launch_ns.value : 0;
    const double hop_ns = protocol != NULL ? protocol->network_hop_ns.value : 0;
    const int hops = (broadcast ? 1 : 2) * (nodes - 1);
    return dl_tcp_ring_ns(&ring) * links->machine->tcp.time_factor * sent / sent_simulated +
           launch_ns + hops * (hop_ns + config->message_ns);
}

#define SEARCH_STEPS 40
#define LEAST_FRAC 1e-6

/* The part of the rates between nodes that makes a ring as long as it is over TCP, packet by packet; all
 * other algorithms and kinds are taken to reach the same. A ring over all ranks, or between the groups
 * of two levels one of the rings; 1 without [tcp]. */
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
    dl_place *ranks =
        dl_calloc((size_t)ring.rank_count, sizeof *ranks, "ranks of a ring between groups");
    for (int r = 0; r < ring.rank_count; r++)
        ranks[r] = config->ranks[r * step];
    ring.ranks = ranks;
    const double wanted_ns = tcp_ns(links, &ring, best->protocol);
    double low = log(LEAST_FRAC), high = 0;
    for (int i = 0; i < SEARCH_STEPS && wanted_ns > 0; i++) {
        const double middle = (low + high) / 2;
        const bool slower =
            idle_ns(links, &ring, &dl_collective_ring, best->protocol, exp(middle)) > wanted_ns;
        *(slower ? &low : &high) = middle;
    }
    free(ranks);
    return wanted_ns > 0 ? exp(high) : 1;
}

/* --- whole collectives that were measured ------------------------------------------------------ */

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

/* The measured time of the collective, or a negative number. */
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

/* What makes fewer transfers. */
static const char *fewer_transfers(dl_fidelity fidelity)
{
    return fidelity == DL_FIDELITY_CHUNK
               ? "use [exchange] fidelity = phase, or a larger bucket_bytes"
               : "use a larger [exchange] bucket_bytes";
}

static dl_status check_size(dl_plan *plan, const dl_collective_config *config,
                            const dl_collective_algorithm *algorithm, dl_error *err)
{
    dl_plan counted;
    if (config->transfers_max <= 0 || algorithm == NULL) return DL_OK;
    dl_plan_init(&counted, plan->network, plan->links, &plan->costs);
    counted.counts_only = true;
    algorithm->plan(&counted, config);
    const int count = counted.transfer_count;
    dl_plan_free(&counted);
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
    *collective = (dl_collective){
        .algorithm = best.algorithm, .protocol = best.protocol, .rank_count = config->rank_count};
    dl_hop_costs costs = protocol_costs(best.protocol, config->message_ns);
    costs.network_frac = network_frac(links, config, &best);
    dl_plan_init(&collective->plan, network, links, &costs);
    status = check_size(&collective->plan, config, best.algorithm, err);
    if (status != DL_OK) return status;
    if (best.protocol != NULL) collective->launch_ns = dl_ns_ceil(best.protocol->launch_ns.value);
    if (best.algorithm != NULL) best.algorithm->plan(&collective->plan, config);
    const double whole_ns = measured_ns(config);
    collective->measured = whole_ns >= 0;
    if (collective->measured) collective->launch_ns = dl_ns_ceil(whole_ns);
    return DL_OK;
}

void dl_collective_free(dl_collective *collective)
{
    dl_plan_free(&collective->plan);
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
    return sum;
}

void dl_collective_on_done(dl_collective *collective, dl_event_fn done, void *user, int index)
{
    collective->done = done;
    collective->user = user;
    collective->index = index;
}

static void launched(void *user, int unused)
{
    (void)unused;
    dl_collective *c = user;
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
    const double frac = network_frac(links, config, &best);
    *time_ns = idle_ns(links, config, best.algorithm, best.protocol, frac);
    return DL_OK;
}
