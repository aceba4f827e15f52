#include "sim/network/links.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "sim/network/fabric.h"

static void *copy_of(const void *values, int count, size_t size)
{
    void *copy = dl_calloc((size_t)count, size, "link limits");
    memcpy(copy, values, (size_t)count * size);
    return copy;
}

static int add_link(dl_node_links *links, double capacity, double latency_ns, const char *name,
                    const char *direction)
{
    size_t i = (size_t)links->count++;
    links->capacity = dl_grow(links->capacity, i, sizeof(double), "link capacities");
    links->latency_ns = dl_grow(links->latency_ns, i, sizeof(double), "link latencies");
    links->name = dl_grow(links->name, i, sizeof *links->name, "link names");
    links->capacity[i] = capacity;
    links->latency_ns[i] = latency_ns;
    snprintf(links->name[i], sizeof links->name[i], "%.60s %s", name, direction);
    return (int)i;
}

/* Adds an edge of `lanes` parallel links of a class. */
static dl_edge add_edge(dl_node_links *links, const dl_link_class *classes, int class, int lanes,
                        const char *name)
{
    const dl_link_class *c = &classes[class];
    dl_edge edge = {.both = -1};
    edge.up = add_link(links, lanes * c->bytes_per_s.value, c->latency_ns.value, name, "up");
    edge.down = add_link(links, lanes * c->bytes_per_s.value, c->latency_ns.value, name, "down");
    if (c->duplex_bytes_per_s.known) {
        edge.both = add_link(links, lanes * c->duplex_bytes_per_s.value, 0, name, "both ways");
    }
    return edge;
}

static dl_edge *new_edges(int count)
{
    return dl_calloc((size_t)count, sizeof(dl_edge), "edges of a machine");
}

static void add_sockets(dl_node_links *links, const dl_link_class *classes)
{
    const dl_node_kind *n = links->kind;
    char name[DL_LINK_NAME_BYTES];
    links->memory = dl_calloc((size_t)n->sockets, sizeof(int), "memory links");
    links->root = new_edges(n->sockets);
    links->socket_pair = new_edges(n->sockets * n->sockets);
    for (int a = 0; a < n->sockets; a++) {
        snprintf(name, sizeof name, "socket%d", a);
        links->memory[a] = add_link(links, n->memory_bytes_per_s.value, 0, name, "memory");
        links->root[a] = (dl_edge){-1, -1, -1};
        if (n->root_bytes_per_s.known) {
            links->root[a].up = add_link(links, n->root_bytes_per_s.value, 0, name, "root up");
            links->root[a].down = add_link(links, n->root_bytes_per_s.value, 0, name, "root down");
        }
        for (int b = a + 1; b < n->sockets; b++) {
            snprintf(name, sizeof name, "socket%d-socket%d", a, b);
            links->socket_pair[a * n->sockets + b] =
                add_edge(links, classes, n->socket_link, 1, name);
        }
    }
}

static void add_devices(dl_node_links *links, const dl_link_class *classes)
{
    const dl_node_kind *n = links->kind;
    char name[DL_LINK_NAME_BYTES];
    links->pcie_switch = new_edges(n->switch_count);
    links->gpu = new_edges(n->gpu_count);
    links->nic = new_edges(n->nic_count);
    links->port = new_edges(n->nic_count);
    for (int i = 0; i < n->switch_count; i++) {
        links->pcie_switch[i] =
            add_edge(links, classes, n->switches[i].link, 1, n->switches[i].name);
    }
    for (int i = 0; i < n->gpu_count; i++) {
        snprintf(name, sizeof name, "gpu%d", i);
        links->gpu[i] = add_edge(links, classes, n->gpus[i].link, 1, name);
    }
    for (int i = 0; i < n->nic_count; i++) {
        snprintf(name, sizeof name, "nic%d", i);
        links->nic[i] = add_edge(links, classes, n->nics[i].link, 1, name);
        snprintf(name, sizeof name, "port%d", i);
        links->port[i] = add_edge(links, classes, n->nics[i].port, 1, name);
    }
}

static void add_shm(dl_node_links *links)
{
    const dl_node_kind *n = links->kind;
    char name[DL_LINK_NAME_BYTES];
    if (!n->shm_bytes_per_s.known) return;
    links->shm = dl_calloc((size_t)n->gpu_count, sizeof *links->shm, "links through host memory");
    for (int i = 0; i < n->gpu_count; i++) {
        snprintf(name, sizeof name, "gpu%d", i);
        links->shm[i] = add_link(links, n->shm_bytes_per_s.value, 0, name, "through host memory");
    }
}

static void add_nvlinks(dl_node_links *links, const dl_link_class *classes)
{
    const dl_node_kind *n = links->kind;
    char name[DL_LINK_NAME_BYTES];
    links->nvlink = new_edges(n->nvlink_count);
    for (int i = 0; i < n->nvlink_count; i++) {
        snprintf(name, sizeof name, "gpu%d-gpu%d", n->nvlinks[i].a, n->nvlinks[i].b);
        links->nvlink[i] = add_edge(links, classes, n->nvlinks[i].link, n->nvlinks[i].lanes, name);
    }
    if (n->nvswitch_link < 0) return;
    links->nvswitch = new_edges(n->gpu_count);
    for (int i = 0; i < n->gpu_count; i++) {
        snprintf(name, sizeof name, "gpu%d nvswitch", i);
        links->nvswitch[i] = add_edge(links, classes, n->nvswitch_link, 1, name);
    }
}

static bool is_above(const dl_node_kind *n, int above, int place)
{
    while (place >= 0 && place != above)
        place = dl_machine_parent(n, place);
    return place == above;
}

/* The lowest common ancestor of both places; -1 if they are on different sockets. */
static int common_place(const dl_node_kind *n, int a, int b)
{
    while (a >= 0 && !is_above(n, a, b))
        a = dl_machine_parent(n, a);
    return a;
}

/* Distance in edges between two places; other sockets are farther away than any place on the same
 * one. */
static int distance(const dl_node_kind *n, int a, int b)
{
    int top = common_place(n, a, b);
    if (top < 0) return 2 * DL_MACHINE_MAX_DEPTH + 2;
    int edges = 0;
    for (int place = a; place != top; place = dl_machine_parent(n, place))
        edges++;
    for (int place = b; place != top; place = dl_machine_parent(n, place))
        edges++;
    return edges;
}

/* The nearest NIC of GPU or host `index`. GPUs at one place use equally near NICs in turn. */
static int nearest_nic(const dl_node_kind *n, bool is_gpu, int index)
{
    const int at = is_gpu ? n->gpus[index].parent : index;
    int rank = 0; /* number of earlier GPUs at the same place */
    for (int i = 0; is_gpu && i < index; i++)
        rank += n->gpus[i].parent == at;
    int nearest = INT32_MAX, equal = 0;
    for (int i = 0; i < n->nic_count; i++) {
        int far = distance(n, at, n->nics[i].parent);
        equal = far < nearest ? 1 : equal + (far == nearest);
        if (far < nearest) nearest = far;
    }
    int left = equal > 0 ? rank % equal : 0;
    for (int i = 0; i < n->nic_count; i++) {
        if (distance(n, at, n->nics[i].parent) == nearest && left-- == 0) return i;
    }
    return -1;
}

static void find_nics(dl_node_links *links)
{
    const dl_node_kind *n = links->kind;
    links->gpu_nic = dl_calloc((size_t)n->gpu_count, sizeof *links->gpu_nic, "NICs of GPUs");
    links->host_nic = dl_calloc((size_t)n->sockets, sizeof *links->host_nic, "NICs of hosts");
    for (int g = 0; g < n->gpu_count; g++)
        links->gpu_nic[g] = nearest_nic(n, true, g);
    for (int h = 0; h < n->sockets; h++)
        links->host_nic[h] = nearest_nic(n, false, h);
}

void dl_links_init(dl_links *links, const dl_machine *machine)
{
    *links = (dl_links){.machine = machine, .core = -1, .sites = -1, .fabric = -1, .pairs = -1};
    links->site_capacity = (double)NAN;
    links->kinds =
        dl_calloc((size_t)machine->kind_count, sizeof *links->kinds, "links of kinds of nodes");
    for (int k = 0; k < machine->kind_count; k++) {
        dl_node_links *node = &links->kinds[k];
        node->kind = &machine->kinds[k];
        add_sockets(node, machine->classes);
        add_devices(node, machine->classes);
        add_nvlinks(node, machine->classes);
        add_shm(node);
        find_nics(node);
        node->in_file[0] = copy_of(node->capacity, node->count, sizeof *node->capacity);
        node->in_file[1] = copy_of(node->latency_ns, node->count, sizeof *node->latency_ns);
        if (node->count > links->per_node) links->per_node = node->count;
    }
    links->count = machine->nodes * links->per_node;
    if (machine->network_bytes_per_s.known) links->core = links->count++;
    if (machine->site_count > 0) {
        links->sites = links->count;
        links->count += 2 * (machine->site_count + machine->site_pair_count);
    }
    if (machine->fabric.kind == DL_FABRIC_NONE) return;
    links->fabric = links->count;
    links->count += dl_fabric_links(machine);
    links->slots = dl_calloc((size_t)machine->nodes, sizeof *links->slots, "slots of nodes");
    dl_fabric_slots(machine, links->slots);
}

static void free_node(dl_node_links *node)
{
    free(node->capacity);
    free(node->latency_ns);
    free(node->in_file[0]);
    free(node->in_file[1]);
    free(node->name);
    free(node->gpu);
    free(node->pcie_switch);
    free(node->nic);
    free(node->port);
    free(node->root);
    free(node->socket_pair);
    free(node->nvlink);
    free(node->nvswitch);
    free(node->memory);
    free(node->shm);
    free(node->gpu_nic);
    free(node->host_nic);
}

void dl_links_free(dl_links *links)
{
    for (int k = 0; links->kinds != NULL && k < links->machine->kind_count; k++)
        free_node(&links->kinds[k]);
    free(links->kinds);
    free(links->slots);
    *links = (dl_links){0};
}

static void limit_ports(dl_node_links *node, const dl_network_limits *limits)
{
    node->capacity = copy_of(node->capacity, node->count, sizeof *node->capacity);
    node->latency_ns = copy_of(node->latency_ns, node->count, sizeof *node->latency_ns);
    for (int i = 0; i < node->kind->nic_count; i++) {
        const int ways[] = {node->port[i].up, node->port[i].down};
        for (int w = 0; w < 2; w++) {
            if (!isnan(limits->bytes_per_s)) node->capacity[ways[w]] = limits->bytes_per_s;
            if (!isnan(limits->latency_ns)) node->latency_ns[ways[w]] = limits->latency_ns / 2;
        }
    }
}

void dl_links_limit_network(const dl_links *links, const dl_network_limits *limits,
                            dl_links *limited)
{
    const dl_machine *m = links->machine;
    *limited = *links;
    limited->kinds = copy_of(links->kinds, m->kind_count, sizeof *links->kinds);
    for (int k = 0; k < m->kind_count; k++)
        limit_ports(&limited->kinds[k], limits);
    limited->site_capacity = limits->site_bytes_per_s;
    if (!isnan(limits->slice_ns)) limited->slice_ns = limits->slice_ns;
    if (isnan(limits->pair_bytes_per_s)) return;
    limited->pair_capacity = limits->pair_bytes_per_s;
    limited->pairs = limited->count;
    limited->count += m->nodes * (m->nodes - 1) / 2;
}

void dl_links_in_file(const dl_links *links, dl_links *nominal)
{
    const int kinds = links->machine->kind_count;
    *nominal = *links;
    nominal->kinds = copy_of(links->kinds, kinds, sizeof *links->kinds);
    for (int k = 0; k < kinds; k++) {
        dl_node_links *node = &nominal->kinds[k];
        node->capacity = copy_of(node->in_file[0], node->count, sizeof *node->capacity);
        node->latency_ns = copy_of(node->in_file[1], node->count, sizeof *node->latency_ns);
    }
    nominal->site_capacity = (double)NAN;
    nominal->slice_ns = 0;
    if (links->pairs >= 0) nominal->count = links->pairs;
    nominal->pairs = -1;
}

void dl_links_free_limited(dl_links *limited)
{
    for (int k = 0; limited->kinds != NULL && k < limited->machine->kind_count; k++) {
        free(limited->kinds[k].capacity);
        free(limited->kinds[k].latency_ns);
    }
    free(limited->kinds);
    *limited = (dl_links){0};
}

const dl_node_links *dl_links_node(const dl_links *links, int node)
{
    return &links->kinds[dl_machine_kind(links->machine, node)];
}

int dl_links_socket(const dl_links *links, dl_place gpu)
{
    const dl_node_kind *node = dl_machine_node(links->machine, gpu.node);
    return dl_machine_socket(node, node->gpus[gpu.index].parent);
}

dl_place dl_place_of_gpu(const dl_machine *machine, int number)
{
    dl_place place = {.kind = DL_PLACE_GPU};
    place.node = dl_machine_find_gpu(machine, number, &place.index);
    return place;
}

int dl_place_gpu_number(const dl_machine *machine, dl_place gpu)
{
    return dl_machine_gpus_before(machine, gpu.node) + gpu.index;
}

/* The rate of the site, or pair of sites, that the link belongs to. */
static const dl_quantity *site_rate(const dl_links *links, int link)
{
    const dl_machine *m = links->machine;
    const int number = (link - links->sites) / 2;
    return number < m->site_count ? &m->sites[number].bytes_per_s
                                  : &m->site_pairs[number - m->site_count].bytes_per_s;
}

#define UNLIMITED_BYTES_PER_S 1e18 /* for links that no route uses */

static double site_capacity(const dl_links *links, int link)
{
    const dl_quantity *rate = site_rate(links, link);
    if (!rate->known) return UNLIMITED_BYTES_PER_S;
    return isnan(links->site_capacity) ? rate->value : links->site_capacity;
}

double dl_links_capacity(const dl_links *links, int link)
{
    if (link == links->core) return links->machine->network_bytes_per_s.value;
    if (links->pairs >= 0 && link >= links->pairs) return links->pair_capacity;
    if (links->fabric >= 0 && link >= links->fabric) {
        const double port = links->kinds[0].capacity[links->kinds[0].port[0].up];
        return dl_fabric_capacity(links->machine, port, link - links->fabric);
    }
    if (links->sites >= 0 && link >= links->sites) return site_capacity(links, link);
    const dl_node_links *node = dl_links_node(links, link / links->per_node);
    const int own = link % links->per_node;
    return own < node->count ? node->capacity[own] : UNLIMITED_BYTES_PER_S;
}

const char *dl_links_name(const dl_links *links, int link, char text[DL_LINK_NAME_BYTES])
{
    const dl_machine *m = links->machine;
    const int site = links->sites >= 0 ? (link - links->sites) / 2 : -1;
    const bool is_back = links->sites >= 0 && (link - links->sites) % 2 == 1;
    const bool is_pair = links->pairs >= 0 && link >= links->pairs;
    if (links->fabric >= 0 && link >= links->fabric && !is_pair) {
        dl_fabric_name(m, link - links->fabric, text, DL_LINK_NAME_BYTES);
    } else if (links->sites >= 0 && link >= links->sites && site < m->site_count) {
        snprintf(text, DL_LINK_NAME_BYTES, "site %.60s %s", m->sites[site].name,
                 is_back ? "down" : "up");
    } else if (links->sites >= 0 && link >= links->sites &&
               site < m->site_count + m->site_pair_count) {
        const dl_site_pair *pair = &m->site_pairs[site - m->site_count];
        snprintf(text, DL_LINK_NAME_BYTES, "%.40s to %.40s",
                 m->sites[is_back ? pair->b : pair->a].name,
                 m->sites[is_back ? pair->a : pair->b].name);
    } else if (link == links->core) {
        snprintf(text, DL_LINK_NAME_BYTES, "network");
    } else if (links->pairs >= 0 && link >= links->pairs) {
        snprintf(text, DL_LINK_NAME_BYTES, "network between two nodes");
    } else if (links->machine->nodes == 1) {
        snprintf(text, DL_LINK_NAME_BYTES, "%s", dl_links_node(links, 0)->name[link]);
    } else {
        const dl_node_links *node = dl_links_node(links, link / links->per_node);
        const int own = link % links->per_node;
        snprintf(text, DL_LINK_NAME_BYTES, "node%d %.80s", link / links->per_node,
                 own < node->count ? node->name[own] : "without this link");
    }
    return text;
}

/* --- routes --------------------------------------------------------------------------------- */

static void add_link_to(dl_route *route, int link)
{
    DL_ASSERT(route->count < DL_ROUTE_MAX, "route of %d links", route->count);
    route->links[route->count] = link;
    route->uses[route->count++] = 1;
}

/* The part of a route within one node. */
typedef struct path {
    const dl_node_links *node;
    int first; /* number of the node's first link */
    dl_route *route;
} path;

static path path_in(const dl_links *links, int node, dl_route *route)
{
    return (path){dl_links_node(links, node), node * links->per_node, route};
}

/* Adds one crossing of a node's link; -1: no such link. */
static void cross(const path *p, int link)
{
    if (link < 0) return;
    int number = p->first + link;
    p->route->latency_ns += p->node->latency_ns[link];
    for (int i = 0; i < p->route->count; i++) {
        if (p->route->links[i] != number) continue;
        p->route->uses[i]++;
        return;
    }
    add_link_to(p->route, number);
}

static void go_up(const path *p, dl_edge edge)
{
    cross(p, edge.up);
    cross(p, edge.both);
}

static void go_down(const path *p, dl_edge edge)
{
    cross(p, edge.down);
    cross(p, edge.both);
}

/* A device of a node: its edge, and its parent place. */
typedef struct device {
    dl_edge edge;
    int parent;
} device;

static device gpu_device(const path *p, int gpu)
{
    return (device){p->node->gpu[gpu], p->node->kind->gpus[gpu].parent};
}

static device nic_device(const path *p, int nic)
{
    return (device){p->node->nic[nic], p->node->kind->nics[nic].parent};
}

/* Crosses the edges from the device up to place `top` above it. */
static void climb(const path *p, device d, int top)
{
    const dl_node_kind *n = p->node->kind;
    go_up(p, d.edge);
    for (int place = d.parent; place != top; place = dl_machine_parent(n, place))
        go_up(p, p->node->pcie_switch[place - n->sockets]);
}

static void descend(const path *p, device d, int top)
{
    const dl_node_kind *n = p->node->kind;
    for (int place = d.parent; place != top; place = dl_machine_parent(n, place))
        go_down(p, p->node->pcie_switch[place - n->sockets]);
    go_down(p, d.edge);
}

static void change_socket(const path *p, int from, int to)
{
    int sockets = p->node->kind->sockets;
    if (from < to) go_up(p, p->node->socket_pair[from * sockets + to]);
    if (from > to) go_down(p, p->node->socket_pair[to * sockets + from]);
}

static void device_to_memory(const path *p, device d, int socket)
{
    int own = dl_machine_socket(p->node->kind, d.parent);
    climb(p, d, own);
    go_up(p, p->node->root[own]);
    change_socket(p, own, socket);
    cross(p, p->node->memory[socket]);
}

static void memory_to_device(const path *p, int socket, device d)
{
    int own = dl_machine_socket(p->node->kind, d.parent);
    cross(p, p->node->memory[socket]);
    change_socket(p, socket, own);
    go_down(p, p->node->root[own]);
    descend(p, d, own);
}

/* Crosses the tree between two devices without host memory. */
static void device_to_device(const path *p, device a, device b)
{
    const dl_node_kind *n = p->node->kind;
    int top = common_place(n, a.parent, b.parent);
    if (top >= n->sockets) {
        climb(p, a, top);
        descend(p, b, top);
        return;
    }
    int from = dl_machine_socket(n, a.parent), to = dl_machine_socket(n, b.parent);
    climb(p, a, from);
    go_up(p, p->node->root[from]);
    change_socket(p, from, to);
    go_down(p, p->node->root[to]);
    descend(p, b, to);
}

static bool peers(const dl_node_kind *n, int a, int b)
{
    int top = common_place(n, n->gpus[a].parent, n->gpus[b].parent);
    switch (n->peer) {
    case DL_PEER_NONE: return false;
    case DL_PEER_SWITCH: return top >= n->sockets;
    case DL_PEER_SOCKET: return top >= 0;
    case DL_PEER_ALL: return true;
    }
    return false;
}

/* Routes over the NVLink between two GPUs, or the NVSwitch; false if there is neither. */
static bool route_nvlink(const path *p, int a, int b)
{
    const int nvlink = dl_machine_nvlink(p->node->kind, a, b);
    if (nvlink >= 0 && p->node->kind->nvlinks[nvlink].a == a) {
        go_up(p, p->node->nvlink[nvlink]);
    } else if (nvlink >= 0) {
        go_down(p, p->node->nvlink[nvlink]);
    } else if (p->node->nvswitch != NULL) {
        go_up(p, p->node->nvswitch[a]);
        go_down(p, p->node->nvswitch[b]);
    } else {
        return false;
    }
    return true;
}

static void route_staged(const path *p, int a, int b)
{
    const int socket = dl_machine_socket(p->node->kind, gpu_device(p, a).parent);
    p->route->staged = true;
    device_to_memory(p, gpu_device(p, a), socket);
    memory_to_device(p, socket, gpu_device(p, b));
}

/* Adds the link that limits a GPU's traffic through host memory to the path, if there is one. */
static void cross_shm(const path *p, int gpu)
{
    if (p->node->shm != NULL) cross(p, p->node->shm[gpu]);
}

static void route_gpus(const path *p, int a, int b)
{
    const dl_node_kind *n = p->node->kind;
    if (a == b || route_nvlink(p, a, b)) return;
    if (peers(n, a, b)) {
        device_to_device(p, gpu_device(p, a), gpu_device(p, b));
    } else {
        route_staged(p, a, b);
        if (n->staged_bytes_per_s.known) return;
        cross_shm(p, a);
        cross_shm(p, b);
    }
}

bool dl_links_in_slots(const dl_links *links, dl_place from, dl_place to)
{
    const dl_node_kind *n = dl_links_node(links, from.node)->kind;
    const int a = from.index, b = to.index;
    if (from.node != to.node || from.kind != DL_PLACE_GPU || to.kind != DL_PLACE_GPU || a == b ||
        n->nvswitch_link >= 0 || dl_machine_nvlink(n, a, b) >= 0) {
        return false;
    }
    return !peers(n, a, b) || common_place(n, n->gpus[a].parent, n->gpus[b].parent) < n->sockets;
}

bool dl_links_by_shm(const dl_links *links, dl_place from, dl_place to)
{
    return dl_links_node(links, from.node)->shm != NULL && dl_links_in_slots(links, from, to);
}

int dl_links_nic(const dl_links *links, dl_place place)
{
    const dl_node_links *node = dl_links_node(links, place.node);
    const int nic =
        place.kind == DL_PLACE_GPU ? node->gpu_nic[place.index] : node->host_nic[place.index];
    DL_ASSERT(nic >= 0, "%d NICs", node->kind->nic_count);
    return nic;
}

/* Adds the route from a place to the network through its NIC, staged in host memory if needed; then
 * `by_shm` also crosses the GPU's link of [shm]. */
static void route_out(const path *p, int nic, dl_place from, bool by_shm)
{
    const dl_node_kind *n = p->node->kind;
    device out = nic_device(p, nic);
    if (from.kind == DL_PLACE_HOST) {
        memory_to_device(p, from.index, out);
    } else if (n->gpudirect) {
        device_to_device(p, gpu_device(p, from.index), out);
    } else {
        int socket = dl_machine_socket(n, out.parent);
        p->route->staged = true;
        device_to_memory(p, gpu_device(p, from.index), socket);
        memory_to_device(p, socket, out);
        if (by_shm) cross_shm(p, from.index);
    }
    go_up(p, p->node->port[nic]);
}

static void route_in(const path *p, int nic, dl_place to, bool by_shm)
{
    const dl_node_kind *n = p->node->kind;
    device in = nic_device(p, nic);
    go_down(p, p->node->port[nic]);
    if (to.kind == DL_PLACE_HOST) {
        device_to_memory(p, in, to.index);
    } else if (n->gpudirect) {
        device_to_device(p, in, gpu_device(p, to.index));
    } else {
        int socket = dl_machine_socket(n, in.parent);
        p->route->staged = true;
        device_to_memory(p, in, socket);
        memory_to_device(p, socket, gpu_device(p, to.index));
        if (by_shm) cross_shm(p, to.index);
    }
}

/* The link of a pair of nodes: a * (2 nodes - a - 1) / 2 pairs have a first node before a. */
static int pair_link(const dl_links *links, int one, int other)
{
    const int a = one < other ? one : other, b = one < other ? other : one;
    return links->pairs + a * (2 * links->machine->nodes - a - 1) / 2 + b - a - 1;
}

static void cross_site_link(const dl_links *links, dl_route *route, int link,
                            const dl_quantity *latency_ns)
{
    if (site_rate(links, link)->known) add_link_to(route, link);
    if (latency_ns->known) route->latency_ns += latency_ns->value;
}

/* Adds the route from one site to another: up, over the pair's link, down. */
static void cross_sites(const dl_links *links, dl_route *route, int from, int to)
{
    const dl_machine *m = links->machine;
    if (from == to) return;
    cross_site_link(links, route, links->sites + 2 * from, &m->sites[from].latency_ns);
    for (int p = 0; p < m->site_pair_count; p++) {
        const dl_site_pair *pair = &m->site_pairs[p];
        if ((pair->a != from || pair->b != to) && (pair->a != to || pair->b != from)) continue;
        cross_site_link(links, route, links->sites + 2 * (m->site_count + p) + (pair->b == from),
                        &pair->latency_ns);
    }
    cross_site_link(links, route, links->sites + 2 * to + 1, &m->sites[to].latency_ns);
}

/* Adds the route over the switches between two nodes. */
static void cross_fabric(const dl_links *links, dl_route *route, dl_place from, dl_place to)
{
    int crossed[DL_FABRIC_ROUTE_MAX];
    double latency_ns = 0;
    const int count =
        dl_fabric_route(links->machine, links->slots[from.node], dl_links_nic(links, from),
                        links->slots[to.node], dl_links_nic(links, to), crossed, &latency_ns);
    for (int i = 0; i < count; i++)
        add_link_to(route, links->fabric + crossed[i]);
    route->latency_ns += latency_ns;
}

static void clear(dl_route *route)
{
    route->count = 0;
    route->latency_ns = route->slice_ns = 0;
    route->staged = route->leaves_node = false;
}

/* `one_way` as for dl_links_route_collective. */
static void route_nodes(const dl_links *links, dl_place from, dl_place to, bool one_way,
                        dl_route *route)
{
    const bool by_shm = !one_way && from.kind == DL_PLACE_GPU && to.kind == DL_PLACE_GPU;
    /* Data leave a node down the tree's edge to its NIC, like data for a GPU. */
    const path out = path_in(links, from.node, route), in = path_in(links, to.node, route);
    route->leaves_node = true;
    route->slice_ns = links->slice_ns;
    route_out(&out, dl_links_nic(links, from), from, by_shm);
    if (links->core >= 0) add_link_to(route, links->core);
    if (links->fabric >= 0) cross_fabric(links, route, from, to);
    cross_sites(links, route, dl_machine_site(links->machine, from.node),
                dl_machine_site(links->machine, to.node));
    if (links->pairs >= 0) add_link_to(route, pair_link(links, from.node, to.node));
    route_in(&in, dl_links_nic(links, to), to, by_shm);
}

void dl_links_route(const dl_links *links, dl_place from, dl_place to, dl_route *route)
{
    const path p = path_in(links, from.node, route);
    clear(route);
    if (from.node != to.node) {
        route_nodes(links, from, to, false, route);
    } else if (from.kind == DL_PLACE_GPU && to.kind == DL_PLACE_GPU) {
        route_gpus(&p, from.index, to.index);
    } else if (from.kind == DL_PLACE_GPU) {
        device_to_memory(&p, gpu_device(&p, from.index), to.index);
    } else if (to.kind == DL_PLACE_GPU) {
        memory_to_device(&p, from.index, gpu_device(&p, to.index));
    } else {
        cross(&p, p.node->memory[from.index]);
        change_socket(&p, from.index, to.index);
        cross(&p, p.node->memory[to.index]);
    }
}

void dl_links_route_collective(const dl_links *links, dl_place from, dl_place to, bool one_way,
                               dl_route *route)
{
    const path p = path_in(links, from.node, route);
    clear(route);
    if (from.node != to.node) {
        route_nodes(links, from, to, one_way, route);
    } else if (!dl_links_by_shm(links, from, to)) {
        dl_links_route(links, from, to, route);
    } else {
        route_staged(&p, from.index, to.index);
        if (one_way) return;
        cross_shm(&p, from.index);
        cross_shm(&p, to.index);
    }
}

double dl_links_route_rate(const dl_links *links, const dl_route *route)
{
    double rate = INFINITY;
    for (int i = 0; i < route->count; i++)
        rate = fmin(rate, dl_links_capacity(links, route->links[i]) / route->uses[i]);
    return rate;
}
