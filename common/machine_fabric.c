/* Network between the nodes of a machine file: [fabric], [netswitch], [traffic]. */
#include <limits.h>
#include <math.h>
#include <string.h>

#include "common/alloc.h"
#include "common/machine_internal.h"

#define UPLINKS_MAX 4096 /* maximum number of distinct uplinks of a switch */

dl_status dl_machine_name_net_switch(const dl_machine_reader *r,
                                     const dl_ini_section *section DL_UNUSED, const char *name)
{
    dl_fabric *f = &r->machine->fabric;
    DL_APPEND(f->switches, f->switch_count, "switches between nodes") =
        (dl_net_switch){.name = dl_strdup(name), .parent = -1};
    return DL_OK;
}

static int find_net_switch(const dl_fabric *f, const char *name)
{
    int i = 0;
    while (strcmp(f->switches[i].name, name) != 0)
        i++;
    return i;
}

/* Calls take(user, number) for each number of a list "0-3, 8"; reports a number for which it fails
 * as repeated. */
static dl_status read_list(const dl_ini *ini, const dl_ini_entry *entry, dl_error *err,
                           dl_status (*take)(void *user, int number), void *user)
{
    char **items = NULL;
    size_t count = 0;
    dl_status status = dl_ini_split(ini, entry, &items, &count, err);
    if (status != DL_OK) return status;
    for (size_t i = 0; i < count && status == DL_OK; i++) {
        int first = 0, last = -1;
        if (!dl_machine_parse_range(items[i], DL_MACHINE_MAX_NODES, &first, &last)) {
            status =
                dl_ini_error(ini, entry, DL_ERR_RANGE, err,
                             "'%s' is not a number from 0 on or a range such as 0-3", items[i]);
        }
        for (int n = first; n <= last && status == DL_OK; n++) {
            status = take(user, n);
            if (status == DL_OK) continue;
            status = dl_ini_error(ini, entry, DL_ERR_RANGE, err, "slot %d comes twice", n);
        }
    }
    dl_ini_free_list(items, count);
    return status;
}

typedef struct slot_taker {
    dl_fabric *fabric;
    int of; /* switch */
} slot_taker;

static dl_status put_under_switch(void *user, int slot)
{
    const slot_taker *taker = user;
    dl_fabric *f = taker->fabric;
    while (f->switch_slots <= slot)
        DL_APPEND(f->switch_of, f->switch_slots, "slots of switches") = -1;
    if (f->switch_of[slot] >= 0) return DL_ERR_RANGE;
    f->switch_of[slot] = taker->of;
    return DL_OK;
}

dl_status dl_machine_read_net_switch(const dl_machine_reader *r, const dl_ini_section *section,
                                     const char *name)
{
    dl_fabric *f = &r->machine->fabric;
    const int index = find_net_switch(f, name);
    dl_net_switch *s = &f->switches[index];
    slot_taker taker = {f, index};
    const dl_ini_entry *nodes = dl_ini_find(r->ini, section->name, "nodes");
    dl_status status =
        dl_keys_read(&dl_machine_keys, OF_NET_SWITCH, r->ini, section->name, s, r->err);
    if (status == DL_OK && dl_ini_find(r->ini, section->name, "parent") != NULL) {
        status = dl_machine_read_name(r, section->name, "parent", f->switches, f->switch_count,
                                      sizeof *f->switches, &s->parent);
    }
    if (status != DL_OK || nodes == NULL) return status;
    return read_list(r->ini, nodes, r->err, put_under_switch, &taker);
}

/* Returns the number of levels above a switch; -1 if it exceeds DL_FABRIC_DEPTH_MAX, as in a
 * cycle. */
static int net_depth(const dl_fabric *f, int of)
{
    int depth = 0;
    while (f->switches[of].parent >= 0 && depth <= DL_FABRIC_DEPTH_MAX) {
        of = f->switches[of].parent;
        depth++;
    }
    return depth <= DL_FABRIC_DEPTH_MAX ? depth : -1;
}

/* Counts each switch's uplinks. The root has no uplink, but gets a link nevertheless. */
static void count_uplinks(dl_fabric *f)
{
    int first = 0;
    for (int i = 0; i < f->switch_count; i++) {
        dl_net_switch *s = &f->switches[i];
        if (s->parent < 0) s->uplinks = 1;
        if (s->uplinks == 0) s->uplinks = (int)fmin(UPLINKS_MAX, fmax(1, round(s->uplink_ports)));
        s->first_uplink = first;
        first += s->uplinks;
    }
}

/* Computes the uplinks' rates, from the lowest switches up. */
static void add_up_uplinks(const dl_machine *m, dl_fabric *f)
{
    for (int slot = 0; slot < f->switch_slots; slot++)
        f->switches[f->switch_of[slot]].uplink_ports += m->kinds[0].nic_count;
    for (int depth = DL_FABRIC_DEPTH_MAX; depth > 0; depth--) {
        for (int i = 0; i < f->switch_count; i++) {
            dl_net_switch *s = &f->switches[i];
            if (net_depth(f, i) != depth) continue;
            const double over = s->oversubscription.known ? s->oversubscription.value : 1;
            s->uplink_ports /= over;
            s->uplink_fixed /= over;
            if (s->uplink_bytes_per_s.known) {
                s->uplink_ports = 0;
                s->uplink_fixed = s->uplink_bytes_per_s.value;
            }
            f->switches[s->parent].uplink_ports += s->uplink_ports;
            f->switches[s->parent].uplink_fixed += s->uplink_fixed;
        }
    }
}

dl_status dl_machine_check_net_switches(const dl_machine_reader *r)
{
    dl_fabric *f = &r->machine->fabric;
    int roots = 0;
    for (int i = 0; i < f->switch_count; i++) {
        DL_AUTOFREE char *section = dl_format("netswitch %s", f->switches[i].name);
        const int line = dl_ini_section_line(r->ini, section);
        roots += f->switches[i].parent < 0;
        if (net_depth(f, i) < 0) {
            return dl_error_set_at(r->err, DL_ERR_RANGE, r->ini->path, line,
                                   "[netswitch %s] has more than %d switches above it, or itself",
                                   f->switches[i].name, DL_FABRIC_DEPTH_MAX);
        }
        if (roots < 2) continue;
        return dl_error_set_at(
            r->err, DL_ERR_RANGE, r->ini->path, line,
            "[netswitch %s] is the second one without parent; a tree has one root",
            f->switches[i].name);
    }
    for (int slot = 0; slot < f->switch_slots; slot++) {
        if (f->switch_of[slot] >= 0) continue;
        return dl_error_set_at(
            r->err, DL_ERR_RANGE, r->ini->path, dl_ini_section_line(r->ini, "fabric"),
            "slot %d is at no [netswitch], but slot %d is", slot, f->switch_slots - 1);
    }
    add_up_uplinks(r->machine, f);
    count_uplinks(f);
    return DL_OK;
}

static dl_status take_slot(void *user, int slot)
{
    dl_fabric *f = user;
    DL_APPEND(f->slots, f->slot_count, "slots") = slot;
    if (slot >= f->slot_end) f->slot_end = slot + 1;
    return DL_OK;
}

/* Returns a slot that occurs twice in the list; -1 if there is none. */
static int find_twin(const dl_fabric *f)
{
    int twin = -1;
    DL_AUTOFREE bool *seen = dl_calloc((size_t)f->slot_end, sizeof *seen, "slots");
    for (int i = 0; i < f->slot_count; i++) {
        if (seen[f->slots[i]]) twin = f->slots[i];
        seen[f->slots[i]] = true;
    }
    return twin;
}

dl_status dl_machine_read_slots(dl_machine *machine, const dl_ini *ini, dl_error *err)
{
    const dl_ini_entry *entry = dl_ini_find(ini, "fabric", "slots");
    dl_fabric *f = &machine->fabric;
    if (entry == NULL) return DL_OK;
    f->slot_count = f->slot_end = 0;
    dl_status status = read_list(ini, entry, err, take_slot, f);
    const int twin = status == DL_OK ? find_twin(f) : -1;
    return twin < 0 ? status
                    : dl_ini_error(ini, entry, DL_ERR_RANGE, err, "slot %d comes twice", twin);
}

dl_status dl_machine_read_fabric(const dl_machine_reader *r)
{
    dl_fabric *fabric = &r->machine->fabric;
    if (fabric->router_nodes == 0) fabric->router_nodes = 1;
    if (fabric->global_links == 0) fabric->global_links = 1;
    for (int d = 1; d < DL_FABRIC_DIMENSIONS; d++)
        if (fabric->size[d] == 0) fabric->size[d] = 1;
    const int line = dl_ini_section_line(r->ini, "fabric");
    const dl_status status = dl_machine_read_slots(r->machine, r->ini, r->err);
    if (status != DL_OK) return status;
    if (line == 0 || dl_ini_find(r->ini, "fabric", "topology") != NULL) return DL_OK;
    return dl_error_set_at(r->err, DL_ERR_DATA, r->ini->path, line, "[fabric] lacks topology");
}

typedef struct node_list {
    int *nodes;
    int count;
} node_list;

static dl_status take_node(void *user, int node)
{
    node_list *list = user;
    DL_APPEND(list->nodes, list->count, "nodes of another job") = node;
    return DL_OK;
}

dl_status dl_machine_read_traffic(const dl_machine_reader *r, const dl_ini_section *section,
                                  const char *name)
{
    dl_fabric *f = &r->machine->fabric;
    dl_traffic *t = &DL_APPEND(f->traffic, f->traffic_count, "traffic of other jobs");
    *t = (dl_traffic){.name = dl_strdup(name)};
    const char *const ends[] = {"from", "to"};
    node_list lists[2] = {{0}, {0}};
    dl_status status = dl_keys_read(&dl_machine_keys, OF_TRAFFIC, r->ini, section->name, t, r->err);
    for (int e = 0; e < 2 && status == DL_OK; e++)
        status = read_list(r->ini, dl_ini_find(r->ini, section->name, ends[e]), r->err, take_node,
                           &lists[e]);
    t->from = lists[0].nodes;
    t->to = lists[1].nodes;
    t->count = lists[0].count;
    if (status == DL_OK && lists[0].count != lists[1].count) {
        status = dl_error_set_at(r->err, DL_ERR_RANGE, r->ini->path, section->line,
                                 "[%s]: from has %d nodes, to has %d", section->name,
                                 lists[0].count, lists[1].count);
    }
    for (int i = 0; i < t->count && status == DL_OK; i++) {
        if (t->from[i] != t->to[i]) continue;
        status = dl_error_set_at(r->err, DL_ERR_RANGE, r->ini->path, section->line,
                                 "[%s]: node %d sends to itself", section->name, t->from[i]);
    }
    return status;
}

/* Checks that the nodes of all [traffic] exist, and that there is no [tcp], whose rings are
 * simulated without other traffic. */
static dl_status check_traffic(const dl_machine *machine, dl_error *err)
{
    for (int j = 0; j < machine->fabric.traffic_count; j++) {
        const dl_traffic *t = &machine->fabric.traffic[j];
        if (machine->tcp.given) {
            return dl_error_set(err, DL_ERR_UNSUPPORTED,
                                "[traffic %s]: other jobs are not simulated beside [tcp]", t->name);
        }
        for (int i = 0; i < t->count; i++) {
            const int node = t->from[i] > t->to[i] ? t->from[i] : t->to[i];
            if (node < machine->nodes) continue;
            return dl_error_set(err, DL_ERR_RANGE,
                                "[traffic %s]: node %d, but there are %d nodes, from 0", t->name,
                                node, machine->nodes);
        }
    }
    return DL_OK;
}

/* Returns the number of slots; INT_MAX: unlimited. */
static int slots_of(const dl_fabric *fabric)
{
    switch (fabric->kind) {
    case DL_FABRIC_TORUS: return fabric->size[0] * fabric->size[1] * fabric->size[2];
    case DL_FABRIC_SWITCHES: return fabric->switch_slots;
    default: return INT_MAX;
    }
}

static dl_status check_slots(const dl_machine *machine, dl_error *err)
{
    const dl_fabric *fabric = &machine->fabric;
    const int slots = slots_of(fabric);
    if (fabric->slot_count > 0 && fabric->slot_count < machine->nodes) {
        return dl_error_set(err, DL_ERR_RANGE, "%d nodes, but [fabric] slots has %d of them",
                            machine->nodes, fabric->slot_count);
    }
    if (machine->nodes > slots) {
        return dl_error_set(err, DL_ERR_RANGE, "%d nodes, but the %s of [fabric] %s %d %s",
                            machine->nodes, fabric->kind == DL_FABRIC_TORUS ? "torus" : "tree",
                            "has", slots, fabric->kind == DL_FABRIC_TORUS ? "switches" : "slots");
    }
    if (fabric->slot_end <= slots) return DL_OK;
    return dl_error_set(err, DL_ERR_RANGE, "[fabric] slots has %d, but there are %d slots, from 0",
                        fabric->slot_end - 1, slots);
}

dl_status dl_machine_check_fabric(const dl_machine *machine, dl_error *err)
{
    const dl_fabric *fabric = &machine->fabric;
    const dl_status status = check_traffic(machine, err);
    if (status != DL_OK || fabric->kind == DL_FABRIC_NONE) return status;
    const char *lacks = NULL;
    if (fabric->kind == DL_FABRIC_TORUS) {
        lacks = fabric->size[0] == 0 ? "size_x" : NULL;
    } else if (fabric->kind == DL_FABRIC_SWITCHES) {
        lacks = fabric->switch_slots == 0 ? "[netswitch]es with nodes in the machine file" : NULL;
    } else if (fabric->group_nodes == 0) {
        lacks = "group_nodes";
    }
    if (lacks != NULL) {
        return dl_error_set(err, DL_ERR_DATA, "[fabric] topology = %s needs %s",
                            dl_fabric_kind_names[fabric->kind], lacks);
    }
    for (int k = 1; k < machine->kind_count && fabric->kind == DL_FABRIC_RAIL; k++) {
        if (machine->kinds[k].nic_count <= machine->kinds[0].nic_count) continue;
        return dl_error_set(
            err, DL_ERR_UNSUPPORTED,
            "[fabric] topology = rail has a leaf for each of the %d NICs of the nodes "
            "without a kind; those of kind %s have %d: swap the kinds",
            machine->kinds[0].nic_count, machine->kinds[k].name, machine->kinds[k].nic_count);
    }
    if (fabric->rank_order == DL_FABRIC_BY_SWITCHES &&
        (machine->kind_count > 1 || machine->site_count > 0)) {
        return dl_error_set(
            err, DL_ERR_RANGE,
            "[fabric] rank_order = switches needs nodes that are all alike: without "
            "[nodes ..] and [site ..]");
    }
    return check_slots(machine, err);
}
