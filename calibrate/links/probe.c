/* Times of probes on a machine: as it is, with one assumed value changed, and after one change of
 * the machine. */
#include "calibrate/links/probe.h"

#include <math.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/units.h"
#include "sim/scenario/machine_catalogue.h"

static void ended(void *user DL_UNUSED, int index DL_UNUSED) {}

static double copy_ns(const dl_links *links, const dl_link_copy *c, double bytes)
{
    dl_route route, back;
    dl_links_route(links, c->from, c->to, &route);
    if (!c->both_ways) {
        return route.latency_ns + bytes / dl_links_route_rate(links, &route) * DL_NS_PER_S;
    }
    DL_SCOPED(dl_engine) engine;
    DL_SCOPED(dl_network) network;
    dl_links_route(links, c->to, c->from, &back);
    dl_engine_init(&engine, 8);
    dl_network_init(&network, &engine, 2);
    dl_network_add_links(&network, links);
    dl_network_start(&network, dl_network_route_class(&network, &route), bytes, 0, ended, NULL, 0);
    dl_network_start(&network, dl_network_route_class(&network, &back), bytes, 0, ended, NULL, 0);
    dl_engine_run(&engine);
    return (double)engine.now_ns + route.latency_ns;
}

double dl_link_probe_ns(const dl_links *links, const dl_link_probe *p)
{
    double time_ns = 0;
    if (p->config == NULL) return copy_ns(links, &p->copy, p->bytes);
    dl_collective_config config = *p->config;
    config.bytes = p->bytes;
    return dl_collective_idle_ns(links, &config, &time_ns, NULL) == DL_OK ? time_ns : (double)NAN;
}

/* dl_link_probe_ns on idle links of a machine. */
static double machine_ns(const dl_machine *machine, const dl_link_probe *p)
{
    DL_SCOPED(dl_links) links;
    dl_links_init(&links, machine);
    return dl_link_probe_ns(&links, p);
}

/* --- assumed values --------------------------------------------------------------------------- */

/* A time depends on a value if changing the value by 10 % changes the time by about 2 % or more. */
#define CHANGE 1.1
#define MATTERS 0.2

typedef struct assumption {
    const dl_machine *machine;
    const dl_link_probe *probe;
    double time_ns;
    char *names; /* separated by commas; NULL: none yet */
} assumption;

static void try_value(void *user, const char *section, const dl_key *key, dl_quantity *quantity)
{
    assumption *a = user;
    if (!quantity->known || quantity->origin != DL_ORIGIN_ASSUMED) return;
    const double value = quantity->value;
    quantity->value = value / CHANGE; /* dividing keeps a fraction below 1 */
    const double time_ns = machine_ns(a->machine, a->probe);
    quantity->value = value;
    if (!(fabs(log(time_ns / a->time_ns)) >= MATTERS * log(CHANGE))) return;
    dl_join_format(&a->names, ", ", "[%s] %s", section, key->name);
}

char *dl_link_find_assumed(dl_machine *machine, const dl_link_probe *p, double time_ns)
{
    assumption a = {.machine = machine, .probe = p, .time_ns = time_ns};
    dl_machine_each(machine, try_value, &a);
    return a.names;
}

/* --- changes of a machine --------------------------------------------------------------------- */

/* Each function changes a kind of node; it returns false if there is nothing to change. */

static bool without_nvlink(dl_node_kind *node, double rate DL_UNUSED)
{
    const bool changed = node->nvlink_count > 0 || node->nvswitch_link >= 0;
    node->nvlink_count = 0;
    node->nvswitch_link = -1;
    node->nvswitch_sum_frac.known = false;
    return changed;
}

static bool without_peer(dl_node_kind *node, double rate)
{
    const bool changed = node->peer != DL_PEER_NONE;
    node->peer = DL_PEER_NONE;
    return without_nvlink(node, rate) || changed;
}

static bool without_sums(dl_node_kind *node, double rate DL_UNUSED)
{
    const bool changed = node->nvswitch_sum_frac.known;
    node->nvswitch_sum_frac.known = false;
    return changed;
}

static bool without_gpudirect(dl_node_kind *node, double rate DL_UNUSED)
{
    const bool changed = node->gpudirect;
    node->gpudirect = false;
    return changed;
}

static bool with_one_nic(dl_node_kind *node, double rate DL_UNUSED)
{
    const bool changed = node->nic_count > 1;
    if (changed) node->nic_count = 1;
    return changed;
}

/* Sets the bytes per second that a GPU sends and receives together through host memory. */
static bool with_shared_memory(dl_node_kind *node, double rate)
{
    node->shm_bytes_per_s = (dl_quantity){.known = true, .value = rate};
    return true;
}

const dl_link_change dl_link_changes[DL_LINK_CHANGES] = {
    {"sums by the NVSwitch are off (NVLS)", without_sums, .rate = (double)NAN},
    {"NVLink is not used", without_nvlink, .rate = (double)NAN},
    {"copies between GPUs go through host memory (no peer access: ACS, NCCL_P2P_DISABLE)",
     without_peer, .rate = (double)NAN},
    {"the GPUs' PCIe links run at half their rate (slots, generation)", NULL, DL_LINK_GPU_LINKS, 2,
     false, (double)NAN},
    {"NICs copy through host memory (no GPUDirect)", without_gpudirect, DL_LINK_NO_LINKS, 0, true,
     (double)NAN},
    {"one NIC of each node is used", with_one_nic, DL_LINK_NO_LINKS, 0, true, (double)NAN},
    {"the nodes' ports run at half their rate", NULL, DL_LINK_NIC_PORTS, 2, true, (double)NAN},
    {"the nodes' ports run at a tenth of their rate (another interface)", NULL, DL_LINK_NIC_PORTS,
     10, true, (double)NAN},
};

/* Applies the change to each kind of node and to the links; returns false if nothing changed. */
static bool apply_change(const dl_link_change *what, dl_machine *m)
{
    bool *slow = dl_calloc((size_t)m->class_count, sizeof *slow, "links"), changed = false;
    for (int k = 0; k < m->kind_count; k++) {
        dl_node_kind *node = &m->kinds[k];
        if (what->apply != NULL) changed |= what->apply(node, what->rate);
        for (int g = 0; g < node->gpu_count && what->links == DL_LINK_GPU_LINKS; g++)
            changed = slow[node->gpus[g].link] = true;
        for (int n = 0; n < node->nic_count && what->links == DL_LINK_NIC_PORTS; n++)
            changed = slow[node->nics[n].port] = true;
    }
    for (int c = 0; c < m->class_count; c++) {
        if (!slow[c]) continue;
        const double slower =
            isnan(what->rate) ? what->slower : m->classes[c].bytes_per_s.value / what->rate;
        m->classes[c].bytes_per_s.value /= slower;
        m->classes[c].duplex_bytes_per_s.value /= slower;
    }
    free(slow);
    return changed;
}

dl_link_change dl_link_shared_memory(double rate)
{
    return (dl_link_change){"both directions through host memory share", with_shared_memory,
                            .rate = rate};
}

dl_link_change dl_link_ports(double rate)
{
    return (dl_link_change){"each port of the nodes carries", NULL, DL_LINK_NIC_PORTS,
                            .between_nodes = true, .rate = rate};
}

double dl_link_changed_ns(const char *name, int nodes, const dl_link_change *what,
                          const dl_link_probe *p)
{
    DL_SCOPED(dl_machine) machine = {0};
    double time_ns = (double)NAN;
    if (dl_machine_open(&machine, name, NULL) != DL_OK) return time_ns;
    machine.nodes = nodes;
    if (apply_change(what, &machine)) time_ns = machine_ns(&machine, p);
    return time_ns;
}
