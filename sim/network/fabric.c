#include "sim/network/fabric.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/bytes.h"
#include "common/sort.h"
#include "common/status.h"

/* UP: away from the nodes; in a torus, towards the larger coordinate. */
enum { UP, DOWN, WAYS };

static double or_one(dl_quantity quantity)
{
    return quantity.known ? quantity.value : 1;
}

static int divide_up(int a, int b)
{
    return (a + b - 1) / b;
}

static int groups_of(const dl_machine *m)
{
    const int slots = m->nodes > m->fabric.slot_end ? m->nodes : m->fabric.slot_end;
    return divide_up(slots, m->fabric.group_nodes);
}

/* --- slots ----------------------------------------------------------------------------------- */

/* Distributes the nodes over the switches that have slots, in turn. */
static void deal_over_switches(const dl_machine *m, int *slots)
{
    const dl_fabric *f = &m->fabric;
    DL_AUTOFREE int *next =
        dl_calloc((size_t)f->switch_count, sizeof *next, "next slots of switches");
    int dealt = 0;
    while (dealt < m->nodes) {
        for (int i = 0; i < f->switch_count && dealt < m->nodes; i++) {
            while (next[i] < f->switch_slots && f->switch_of[next[i]] != i)
                next[i]++;
            if (next[i] < f->switch_slots) slots[dealt++] = next[i]++;
        }
    }
}

void dl_fabric_slots(const dl_machine *machine, int *slots)
{
    const dl_fabric *f = &machine->fabric;
    const bool scattered = f->placement == DL_FABRIC_SCATTERED && f->kind != DL_FABRIC_TORUS;
    for (int node = 0; node < machine->nodes; node++) {
        slots[node] = node;
        if (f->slot_count > 0) {
            slots[node] = f->slots[node];
        } else if (scattered && f->kind != DL_FABRIC_SWITCHES) {
            const int groups = groups_of(machine);
            slots[node] = node % groups * f->group_nodes + node / groups;
        }
    }
    if (f->slot_count == 0 && scattered && f->kind == DL_FABRIC_SWITCHES)
        deal_over_switches(machine, slots);
    if (f->rank_order == DL_FABRIC_BY_SWITCHES)
        qsort(slots, (size_t)machine->nodes, sizeof *slots, dl_compare_ints);
}

/* --- trees ----------------------------------------------------------------------------------- */

static bool is_tree(const dl_machine *m)
{
    return m->fabric.kind == DL_FABRIC_FAT_TREE || m->fabric.kind == DL_FABRIC_RAIL;
}

static int leaves_of_group(const dl_machine *m)
{
    return m->fabric.kind == DL_FABRIC_RAIL ? m->kinds[0].nic_count : 1;
}

static int leaves_of(const dl_machine *m)
{
    return groups_of(m) * leaves_of_group(m);
}

static int ports_of_leaf(const dl_machine *m)
{
    return m->fabric.group_nodes * m->kinds[0].nic_count / leaves_of_group(m);
}

/* Number of uplinks modelled per leaf: 1 with ideal spreading, otherwise as many as carry the
 * ports' rate over the oversubscription. */
static int uplinks_of_leaf(const dl_machine *m)
{
    if (m->fabric.spreading == DL_FABRIC_IDEAL) return 1;
    const int uplinks = (int)lround(ports_of_leaf(m) / or_one(m->fabric.oversubscription));
    return uplinks > 1 ? uplinks : 1;
}

static int pods_of(const dl_machine *m)
{
    return m->fabric.pod_groups > 0 ? divide_up(groups_of(m), m->fabric.pod_groups) : 0;
}

static int leaf_links(const dl_machine *m)
{
    return WAYS * leaves_of(m) * uplinks_of_leaf(m);
}

static int leaf_of(const dl_machine *m, int slot, int nic)
{
    const int group = slot / m->fabric.group_nodes;
    return m->fabric.kind == DL_FABRIC_RAIL ? group * m->kinds[0].nic_count + nic : group;
}

static double leaf_rate(const dl_machine *m, double port_bytes_per_s)
{
    return ports_of_leaf(m) * port_bytes_per_s / or_one(m->fabric.oversubscription);
}

static double tree_capacity(const dl_machine *m, double port_bytes_per_s, int link)
{
    if (link < leaf_links(m)) return leaf_rate(m, port_bytes_per_s) / uplinks_of_leaf(m);
    const int leaves = m->fabric.pod_groups * leaves_of_group(m);
    return leaves * leaf_rate(m, port_bytes_per_s) / or_one(m->fabric.pod_oversubscription);
}

/* The uplink of a connection, chosen by a hash of its addresses, as ECMP switches do. */
static int uplink_of(const int ends[4], int uplinks)
{
    const uint64_t hash = dl_hash_bytes(DL_HASH_START, ends, 4 * sizeof *ends);
    return (int)((hash ^ hash >> 32) % (uint64_t)uplinks);
}

static int route_tree(const dl_machine *m, const int ends[4], int *links, int *switches)
{
    const int from = leaf_of(m, ends[0], ends[1]), to = leaf_of(m, ends[2], ends[3]);
    if (from == to) return 0;
    const int uplinks = uplinks_of_leaf(m);
    const int uplink = uplink_of(ends, uplinks);
    const int group_leaves =
        leaves_of_group(m) * (m->fabric.pod_groups > 0 ? m->fabric.pod_groups : 1);
    const int from_pod = from / group_leaves, to_pod = to / group_leaves;
    int count = 0;
    links[count++] = WAYS * (from * uplinks + uplink) + UP;
    *switches = 2;
    if (m->fabric.pod_groups > 0 && from_pod != to_pod) {
        links[count++] = leaf_links(m) + WAYS * from_pod + UP;
        links[count++] = leaf_links(m) + WAYS * to_pod + DOWN;
        *switches = 4;
    }
    links[count++] = WAYS * (to * uplinks + uplink) + DOWN;
    return count;
}

/* --- dragonfly ------------------------------------------------------------------------------- */

static int routers_of_group(const dl_machine *m)
{
    return divide_up(m->fabric.group_nodes, m->fabric.router_nodes);
}

/* Number of links within groups, which precede those between groups. Links from a router to itself
 * are not used. */
static int local_links(const dl_machine *m)
{
    return groups_of(m) * routers_of_group(m) * routers_of_group(m);
}

static int local_link(const dl_machine *m, int group, int from, int to)
{
    const int routers = routers_of_group(m);
    return (group * routers + from) * routers + to;
}

static int route_dragonfly(const dl_machine *m, const int ends[4], int *links, int *switches)
{
    const int nodes = m->fabric.group_nodes, routers = routers_of_group(m);
    const int slots[2] = {ends[0], ends[2]};
    const int groups[2] = {slots[0] / nodes, slots[1] / nodes};
    const int at = slots[0] % nodes / m->fabric.router_nodes;
    const int end = slots[1] % nodes / m->fabric.router_nodes;
    int count = 0, arrival = at;
    if (groups[0] != groups[1]) {
        const int gate = groups[1] % routers;
        arrival = groups[0] % routers;
        if (at != gate) links[count++] = local_link(m, groups[0], at, gate);
        links[count++] = local_links(m) + groups[0] * groups_of(m) + groups[1];
    }
    if (arrival != end) links[count++] = local_link(m, groups[1], arrival, end);
    *switches = count;
    return count;
}

/* --- torus ----------------------------------------------------------------------------------- */

static int route_torus(const dl_machine *m, const int ends[4], int *links, int *switches)
{
    int at = ends[0], count = 0, stride = 1;
    const int to = ends[2];
    for (int d = 0; d < DL_FABRIC_DIMENSIONS; d++) {
        const int size = m->fabric.size[d];
        int here = at / stride % size;
        const int there = to / stride % size;
        const int ahead = (there - here + size) % size;
        const int way = 2 * ahead <= size ? UP : DOWN;
        while (here != there) {
            links[count++] = (at * DL_FABRIC_DIMENSIONS + d) * WAYS + way;
            const int next = (here + (way == UP ? 1 : size - 1)) % size;
            at += (next - here) * stride;
            here = next;
        }
        stride *= size;
    }
    *switches = count;
    return count;
}

/* --- user-defined switches ------------------------------------------------------------------ */

static int depth_of(const dl_fabric *f, int of)
{
    int depth = 0;
    for (; f->switches[of].parent >= 0; of = f->switches[of].parent)
        depth++;
    return depth;
}

/* Number of uplinks modelled per switch. */
static int uplinks_of_switch(const dl_fabric *f, int of)
{
    return f->spreading == DL_FABRIC_IDEAL ? 1 : f->switches[of].uplinks;
}

/* Index of the switch's first uplink among the uplinks of all switches. */
static int first_uplink(const dl_fabric *f, int of)
{
    return f->spreading == DL_FABRIC_IDEAL ? of : f->switches[of].first_uplink;
}

static int count_switch_links(const dl_fabric *f)
{
    const int last = f->switch_count - 1;
    return WAYS * (first_uplink(f, last) + uplinks_of_switch(f, last));
}

static int switch_of_link(const dl_fabric *f, int link)
{
    int of = f->switch_count - 1;
    while (first_uplink(f, of) > link / WAYS)
        of--;
    return of;
}

/* MurmurHash3's finalizer (Appleby, public domain). Without it, FNV's low bits would agree at two
 * levels. */
static uint64_t mix(uint64_t hash)
{
    hash = (hash ^ hash >> 33) * 0xff51afd7ed558ccdu;
    hash = (hash ^ hash >> 33) * 0xc4ceb9fe1a85ec53u;
    return hash ^ hash >> 33;
}

/* Switches at the same depth choose the same uplink for a pair of NICs, so that its flow comes down
 * from the spine switch that it went up to. Each depth has a different hash seed. */
static int link_of_switch(const dl_fabric *f, const int ends[4], int of, int depth, int way)
{
    uint64_t hash = dl_hash_bytes(DL_HASH_START, ends, 4 * sizeof *ends);
    hash = mix(dl_hash_bytes(hash, &depth, sizeof depth));
    const int uplink = (int)(hash % (uint64_t)uplinks_of_switch(f, of));
    return WAYS * (first_uplink(f, of) + uplink) + way;
}

/* Climbs from both ends until the paths meet; the downlinks are found in reverse order. */
static int route_switches(const dl_machine *m, const int ends[4], int *links, int *switches)
{
    const dl_fabric *f = &m->fabric;
    int from = f->switch_of[ends[0]], to = f->switch_of[ends[2]];
    int from_depth = depth_of(f, from), to_depth = depth_of(f, to);
    int down[DL_FABRIC_DEPTH_MAX], down_count = 0, count = 0;
    while (from != to) {
        if (from_depth >= to_depth) {
            links[count++] = link_of_switch(f, ends, from, from_depth--, UP);
            from = f->switches[from].parent;
        } else {
            down[down_count++] = link_of_switch(f, ends, to, to_depth--, DOWN);
            to = f->switches[to].parent;
        }
    }
    while (down_count > 0)
        links[count++] = down[--down_count];
    *switches = count;
    return count;
}

/* Rate of one modelled uplink minus the share of other jobs. */
static double uplink_rate(const dl_machine *m, double port_bytes_per_s, int link)
{
    const dl_fabric *f = &m->fabric;
    const int of = switch_of_link(f, link);
    const dl_net_switch *s = &f->switches[of];
    const dl_quantity taken = s->background_frac.known ? s->background_frac : f->background_frac;
    return (s->uplink_ports * port_bytes_per_s + s->uplink_fixed) / uplinks_of_switch(f, of) *
           (1 - taken.value);
}

/* --- all ------------------------------------------------------------------------------------- */

int dl_fabric_links(const dl_machine *machine)
{
    const dl_fabric *f = &machine->fabric;
    switch (f->kind) {
    case DL_FABRIC_FAT_TREE:
    case DL_FABRIC_RAIL: return leaf_links(machine) + WAYS * pods_of(machine);
    case DL_FABRIC_DRAGONFLY: return local_links(machine) + groups_of(machine) * groups_of(machine);
    case DL_FABRIC_TORUS: return f->size[0] * f->size[1] * f->size[2] * DL_FABRIC_DIMENSIONS * WAYS;
    case DL_FABRIC_SWITCHES: return count_switch_links(f);
    default: return 0;
    }
}

double dl_fabric_capacity(const dl_machine *machine, double port_bytes_per_s, int link)
{
    const dl_fabric *f = &machine->fabric;
    if (f->kind == DL_FABRIC_SWITCHES) return uplink_rate(machine, port_bytes_per_s, link);
    double rate = f->link_bytes_per_s.known ? f->link_bytes_per_s.value : port_bytes_per_s;
    if (is_tree(machine)) {
        rate = tree_capacity(machine, port_bytes_per_s, link);
    } else if (f->kind == DL_FABRIC_DRAGONFLY && link >= local_links(machine)) {
        rate *= f->global_links;
    }
    return rate * (1 - f->background_frac.value);
}

void dl_fabric_name(const dl_machine *machine, int link, char *text, size_t bytes)
{
    const dl_machine *m = machine;
    const char *way = link % WAYS == UP ? "up" : "down";
    if (is_tree(m)) {
        const int uplinks = uplinks_of_leaf(m), number = link / WAYS;
        if (link >= leaf_links(m)) {
            snprintf(text, bytes, "pod %d %s", (link - leaf_links(m)) / WAYS, way);
        } else if (uplinks == 1) {
            snprintf(text, bytes, "leaf %d %s", number, way);
        } else {
            snprintf(text, bytes, "leaf %d uplink %d %s", number / uplinks, number % uplinks, way);
        }
    } else if (m->fabric.kind == DL_FABRIC_SWITCHES) {
        const int of = switch_of_link(&m->fabric, link);
        const char *switch_name = m->fabric.switches[of].name;
        if (uplinks_of_switch(&m->fabric, of) == 1) {
            snprintf(text, bytes, "%.60s %s", switch_name, way);
        } else {
            snprintf(text, bytes, "%.60s uplink %d %s", switch_name,
                     link / WAYS - first_uplink(&m->fabric, of), way);
        }
    } else if (m->fabric.kind == DL_FABRIC_TORUS) {
        const int dimension = link / WAYS % DL_FABRIC_DIMENSIONS;
        snprintf(text, bytes, "switch %d %c%c", link / WAYS / DL_FABRIC_DIMENSIONS,
                 link % WAYS == UP ? '+' : '-', "xyz"[dimension]);
    } else if (link >= local_links(m)) {
        const int pair = link - local_links(m);
        snprintf(text, bytes, "group %d to %d", pair / groups_of(m), pair % groups_of(m));
    } else {
        const int routers = routers_of_group(m), pair = link % (routers * routers);
        snprintf(text, bytes, "group %d router %d to %d", link / (routers * routers),
                 pair / routers, pair % routers);
    }
}

int dl_fabric_route(const dl_machine *machine, int from_slot, int from_nic, int to_slot, int to_nic,
                    int links[DL_FABRIC_ROUTE_MAX], double *latency_ns)
{
    const int ends[4] = {from_slot, from_nic, to_slot, to_nic};
    int count = 0, switches = 0; /* switches: number beyond the first */
    switch (machine->fabric.kind) {
    case DL_FABRIC_FAT_TREE:
    case DL_FABRIC_RAIL: count = route_tree(machine, ends, links, &switches); break;
    case DL_FABRIC_DRAGONFLY: count = route_dragonfly(machine, ends, links, &switches); break;
    case DL_FABRIC_TORUS: count = route_torus(machine, ends, links, &switches); break;
    case DL_FABRIC_SWITCHES: count = route_switches(machine, ends, links, &switches); break;
    default: break;
    }
    DL_ASSERT(count <= DL_FABRIC_ROUTE_MAX, "a way over %d links", count);
    *latency_ns = switches * machine->fabric.hop_ns.value;
    return count;
}
