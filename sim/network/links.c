#include "sim/network/links.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "sim/network/fabric.h"

static int add_link(dl_links *links, double capacity, double latency_ns, const char *name,
                    const char *direction)
{
    size_t i = (size_t)links->per_node++;
    links->capacity = dl_realloc(links->capacity, i + 1, sizeof(double), "link capacities");
    links->latency_ns = dl_realloc(links->latency_ns, i + 1, sizeof(double), "link latencies");
    links->name = dl_realloc(links->name, i + 1, sizeof *links->name, "link names");
    links->capacity[i] = capacity;
    links->latency_ns[i] = latency_ns;
    snprintf(links->name[i], sizeof links->name[i], "%.60s %s", name, direction);
    return (int)i;
}

/* `lanes` links of a class side by side. */
static dl_edge add_edge(dl_links *links, int class, int lanes, const char *name)
{
    const dl_link_class *c = &links->machine->classes[class];
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

static void add_sockets(dl_links *links)
{
    const dl_machine *m = links->machine;
    char name[DL_LINK_NAME_BYTES];
    links->memory = dl_calloc((size_t)m->sockets, sizeof(int), "memory links");
    links->root = new_edges(m->sockets);
    links->socket_pair = new_edges(m->sockets * m->sockets);
    for (int a = 0; a < m->sockets; a++) {
        snprintf(name, sizeof name, "socket%d", a);
        links->memory[a] = add_link(links, m->memory_bytes_per_s.value, 0, name, "memory");
        links->root[a] = (dl_edge){-1, -1, -1};
        if (m->root_bytes_per_s.known) {
            links->root[a].up = add_link(links, m->root_bytes_per_s.value, 0, name, "root up");
            links->root[a].down = add_link(links, m->root_bytes_per_s.value, 0, name, "root down");
        }
        for (int b = a + 1; b < m->sockets; b++) {
            snprintf(name, sizeof name, "socket%d-socket%d", a, b);
            links->socket_pair[a * m->sockets + b] = add_edge(links, m->socket_link, 1, name);
        }
    }
}

static void add_devices(dl_links *links)
{
    const dl_machine *m = links->machine;
    char name[DL_LINK_NAME_BYTES];
    links->pcie_switch = new_edges(m->switch_count);
    links->gpu = new_edges(m->gpu_count);
    links->nic = new_edges(m->nic_count);
    links->port = new_edges(m->nic_count);
    for (int i = 0; i < m->switch_count; i++) {
        links->pcie_switch[i] = add_edge(links, m->switches[i].link, 1, m->switches[i].name);
    }
    for (int i = 0; i < m->gpu_count; i++) {
        snprintf(name, sizeof name, "gpu%d", i);
        links->gpu[i] = add_edge(links, m->gpus[i].link, 1, name);
    }
    for (int i = 0; i < m->nic_count; i++) {
        snprintf(name, sizeof name, "nic%d", i);
        links->nic[i] = add_edge(links, m->nics[i].link, 1, name);
        snprintf(name, sizeof name, "port%d", i);
        links->port[i] = add_edge(links, m->nics[i].port, 1, name);
    }
}

static void add_nvlinks(dl_links *links)
{
    const dl_machine *m = links->machine;
    char name[DL_LINK_NAME_BYTES];
    links->nvlink = new_edges(m->nvlink_count);
    for (int i = 0; i < m->nvlink_count; i++) {
        snprintf(name, sizeof name, "gpu%d-gpu%d", m->nvlinks[i].a, m->nvlinks[i].b);
        links->nvlink[i] = add_edge(links, m->nvlinks[i].link, m->nvlinks[i].lanes, name);
    }
    if (m->nvswitch_link < 0) return;
    links->nvswitch = new_edges(m->gpu_count);
    for (int i = 0; i < m->gpu_count; i++) {
        snprintf(name, sizeof name, "gpu%d nvswitch", i);
        links->nvswitch[i] = add_edge(links, m->nvswitch_link, 1, name);
    }
}

static bool is_above(const dl_machine *m, int above, int place)
{
    while (place >= 0 && place != above)
        place = dl_machine_parent(m, place);
    return place == above;
}

/* The lowest place over both, -1 if they are on different sockets. */
static int common_place(const dl_machine *m, int a, int b)
{
    while (a >= 0 && !is_above(m, a, b))
        a = dl_machine_parent(m, a);
    return a;
}

/* Distance in edges between two places; other sockets are further than any place of the own. */
static int distance(const dl_machine *m, int a, int b)
{
    int top = common_place(m, a, b);
    if (top < 0) return 2 * DL_MACHINE_MAX_DEPTH + 2;
    int edges = 0;
    for (int place = a; place != top; place = dl_machine_parent(m, place))
        edges++;
    for (int place = b; place != top; place = dl_machine_parent(m, place))
        edges++;
    return edges;
}

/* The nearest NIC of GPU or host `index`; in turn for GPUs at one place to which some are equally near. */
static int nearest_nic(const dl_machine *m, bool is_gpu, int index)
{
    const int at = is_gpu ? m->gpus[index].parent : index;
    int rank = 0; /* of the GPU among those at the same place */
    for (int i = 0; is_gpu && i < index; i++)
        rank += m->gpus[i].parent == at;
    int nearest = INT32_MAX, equal = 0;
    for (int i = 0; i < m->nic_count; i++) {
        int far = distance(m, at, m->nics[i].parent);
        equal = far < nearest ? 1 : equal + (far == nearest);
        if (far < nearest) nearest = far;
    }
    int left = equal > 0 ? rank % equal : 0;
    for (int i = 0; i < m->nic_count; i++) {
        if (distance(m, at, m->nics[i].parent) == nearest && left-- == 0) return i;
    }
    return -1;
}

static void find_nics(dl_links *links)
{
    const dl_machine *m = links->machine;
    links->gpu_nic = dl_calloc((size_t)m->gpu_count, sizeof *links->gpu_nic, "NICs of GPUs");
    links->host_nic = dl_calloc((size_t)m->sockets, sizeof *links->host_nic, "NICs of hosts");
    for (int g = 0; g < m->gpu_count; g++)
        links->gpu_nic[g] = nearest_nic(m, true, g);
    for (int h = 0; h < m->sockets; h++)
        links->host_nic[h] = nearest_nic(m, false, h);
}

void dl_links_init(dl_links *links, const dl_machine *machine)
{
    *links = (dl_links){.machine = machine, .core = -1, .sites = -1, .fabric = -1, .pairs = -1};
    links->site_capacity = (double)NAN;
    add_sockets(links);
    add_devices(links);
    add_nvlinks(links);
    find_nics(links);
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

void dl_links_free(dl_links *links)
{
    free(links->capacity);
    free(links->latency_ns);
    free(links->name);
    free(links->gpu);
    free(links->pcie_switch);
    free(links->nic);
    free(links->port);
    free(links->root);
    free(links->socket_pair);
    free(links->nvlink);
    free(links->nvswitch);
    free(links->memory);
    free(links->gpu_nic);
    free(links->host_nic);
    free(links->slots);
    *links = (dl_links){0};
}

static double *copy_of(const double *values, int count)
{
    double *copy = dl_calloc((size_t)count, sizeof *copy, "link limits");
    memcpy(copy, values, (size_t)count * sizeof *copy);
    return copy;
}

void dl_links_limit_network(const dl_links *links, const dl_network_limits *limits,
                            dl_links *limited)
{
    const dl_machine *m = links->machine;
    *limited = *links;
    limited->capacity = copy_of(links->capacity, links->per_node);
    limited->latency_ns = copy_of(links->latency_ns, links->per_node);
    for (int i = 0; i < m->nic_count; i++) {
        const int ways[] = {links->port[i].up, links->port[i].down};
        for (int w = 0; w < 2; w++) {
            if (!isnan(limits->bytes_per_s)) limited->capacity[ways[w]] = limits->bytes_per_s;
            if (!isnan(limits->latency_ns)) limited->latency_ns[ways[w]] = limits->latency_ns / 2;
        }
    }
    limited->site_capacity = limits->site_bytes_per_s;
    if (!isnan(limits->message_ns)) limited->message_ns = limits->message_ns;
    if (isnan(limits->pair_bytes_per_s)) return;
    limited->pair_capacity = limits->pair_bytes_per_s;
    limited->pairs = limited->count;
    limited->count += m->nodes * (m->nodes - 1) / 2;
}

void dl_links_free_limited(dl_links *limited)
{
    free(limited->capacity);
    free(limited->latency_ns);
    *limited = (dl_links){0};
}

/* The rate of the site, or pair of sites, whose link it is. */
static const dl_quantity *site_rate(const dl_links *links, int link)
{
    const dl_machine *m = links->machine;
    const int number = (link - links->sites) / 2;
    return number < m->site_count ? &m->sites[number].bytes_per_s
                                  : &m->site_pairs[number - m->site_count].bytes_per_s;
}

#define UNLIMITED_BYTES_PER_S 1e18 /* of a link that no way takes */

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
        const double port = links->capacity[links->port[0].up];
        return dl_fabric_capacity(links->machine, port, link - links->fabric);
    }
    if (links->sites >= 0 && link >= links->sites) return site_capacity(links, link);
    return links->capacity[link % links->per_node];
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
        snprintf(text, DL_LINK_NAME_BYTES, "%s", links->name[link]);
    } else {
        snprintf(text, DL_LINK_NAME_BYTES, "node%d %.80s", link / links->per_node,
                 links->name[link % links->per_node]);
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

/* One use more of a link of a node; -1 = there is none. */
static void cross(const dl_links *links, dl_route *route, int node, int link)
{
    if (link < 0) return;
    int number = node * links->per_node + link;
    route->latency_ns += links->latency_ns[link];
    for (int i = 0; i < route->count; i++) {
        if (route->links[i] != number) continue;
        route->uses[i]++;
        return;
    }
    add_link_to(route, number);
}

static void go_up(const dl_links *links, dl_route *route, int node, dl_edge edge)
{
    cross(links, route, node, edge.up);
    cross(links, route, node, edge.both);
}

static void go_down(const dl_links *links, dl_route *route, int node, dl_edge edge)
{
    cross(links, route, node, edge.down);
    cross(links, route, node, edge.both);
}

/* A device of a node: its own edge, and the place that it hangs on. */
typedef struct device {
    dl_edge edge;
    int parent;
} device;

static device gpu_device(const dl_links *links, int gpu)
{
    return (device){links->gpu[gpu], links->machine->gpus[gpu].parent};
}

static device nic_device(const dl_links *links, int nic)
{
    return (device){links->nic[nic], links->machine->nics[nic].parent};
}

/* Between the device and the place `top` over it. */
static void climb(const dl_links *links, dl_route *route, int node, device d, int top)
{
    const dl_machine *m = links->machine;
    go_up(links, route, node, d.edge);
    for (int place = d.parent; place != top; place = dl_machine_parent(m, place))
        go_up(links, route, node, links->pcie_switch[place - m->sockets]);
}

static void descend(const dl_links *links, dl_route *route, int node, device d, int top)
{
    const dl_machine *m = links->machine;
    for (int place = d.parent; place != top; place = dl_machine_parent(m, place))
        go_down(links, route, node, links->pcie_switch[place - m->sockets]);
    go_down(links, route, node, d.edge);
}

static void change_socket(const dl_links *links, dl_route *route, int node, int from, int to)
{
    int sockets = links->machine->sockets;
    if (from < to) go_up(links, route, node, links->socket_pair[from * sockets + to]);
    if (from > to) go_down(links, route, node, links->socket_pair[to * sockets + from]);
}

static void device_to_memory(const dl_links *links, dl_route *route, int node, device d, int socket)
{
    int own = dl_machine_socket(links->machine, d.parent);
    climb(links, route, node, d, own);
    go_up(links, route, node, links->root[own]);
    change_socket(links, route, node, own, socket);
    cross(links, route, node, links->memory[socket]);
}

static void memory_to_device(const dl_links *links, dl_route *route, int node, int socket, device d)
{
    int own = dl_machine_socket(links->machine, d.parent);
    cross(links, route, node, links->memory[socket]);
    change_socket(links, route, node, socket, own);
    go_down(links, route, node, links->root[own]);
    descend(links, route, node, d, own);
}

/* Through the tree without host memory. */
static void device_to_device(const dl_links *links, dl_route *route, int node, device a, device b)
{
    const dl_machine *m = links->machine;
    int top = common_place(m, a.parent, b.parent);
    if (top >= m->sockets) {
        climb(links, route, node, a, top);
        descend(links, route, node, b, top);
        return;
    }
    int from = dl_machine_socket(m, a.parent), to = dl_machine_socket(m, b.parent);
    climb(links, route, node, a, from);
    go_up(links, route, node, links->root[from]);
    change_socket(links, route, node, from, to);
    go_down(links, route, node, links->root[to]);
    descend(links, route, node, b, to);
}

static bool peers(const dl_machine *m, int a, int b)
{
    int top = common_place(m, m->gpus[a].parent, m->gpus[b].parent);
    switch (m->peer) {
    case DL_PEER_NONE: return false;
    case DL_PEER_SWITCH: return top >= m->sockets;
    case DL_PEER_SOCKET: return top >= 0;
    case DL_PEER_ALL: return true;
    }
    return false;
}

/* Takes the NVLink between two GPUs, or the NVSwitch; false if there is neither. */
static bool route_nvlink(const dl_links *links, dl_route *route, int node, int a, int b)
{
    const dl_machine *m = links->machine;
    for (int i = 0; i < m->nvlink_count; i++) {
        if (m->nvlinks[i].a == a && m->nvlinks[i].b == b) {
            go_up(links, route, node, links->nvlink[i]);
            return true;
        }
        if (m->nvlinks[i].a == b && m->nvlinks[i].b == a) {
            go_down(links, route, node, links->nvlink[i]);
            return true;
        }
    }
    if (links->nvswitch == NULL) return false;
    go_up(links, route, node, links->nvswitch[a]);
    go_down(links, route, node, links->nvswitch[b]);
    return true;
}

static void route_gpus(const dl_links *links, dl_route *route, int node, int a, int b)
{
    const dl_machine *m = links->machine;
    if (a == b || route_nvlink(links, route, node, a, b)) return;
    device from = gpu_device(links, a), to = gpu_device(links, b);
    if (peers(m, a, b)) {
        device_to_device(links, route, node, from, to);
        return;
    }
    int socket = dl_machine_socket(m, from.parent);
    route->staged = true;
    device_to_memory(links, route, node, from, socket);
    memory_to_device(links, route, node, socket, to);
}

int dl_links_nic(const dl_links *links, dl_place place)
{
    const int nic =
        place.kind == DL_PLACE_GPU ? links->gpu_nic[place.index] : links->host_nic[place.index];
    DL_ASSERT(nic >= 0, "%d NICs", links->machine->nic_count);
    return nic;
}

/* Between a place and the network: by its NIC, with host memory between them where needed. */
static void route_out(const dl_links *links, dl_route *route, dl_place from)
{
    const dl_machine *m = links->machine;
    int nic = dl_links_nic(links, from);
    device out = nic_device(links, nic);
    if (from.kind == DL_PLACE_HOST) {
        memory_to_device(links, route, from.node, from.index, out);
    } else if (m->gpudirect) {
        device_to_device(links, route, from.node, gpu_device(links, from.index), out);
    } else {
        int socket = dl_machine_socket(m, out.parent);
        route->staged = true;
        device_to_memory(links, route, from.node, gpu_device(links, from.index), socket);
        memory_to_device(links, route, from.node, socket, out);
    }
    go_up(links, route, from.node, links->port[nic]);
}

static void route_in(const dl_links *links, dl_route *route, dl_place to)
{
    const dl_machine *m = links->machine;
    int nic = dl_links_nic(links, to);
    device in = nic_device(links, nic);
    go_down(links, route, to.node, links->port[nic]);
    if (to.kind == DL_PLACE_HOST) {
        device_to_memory(links, route, to.node, in, to.index);
    } else if (m->gpudirect) {
        device_to_device(links, route, to.node, in, gpu_device(links, to.index));
    } else {
        int socket = dl_machine_socket(m, in.parent);
        route->staged = true;
        device_to_memory(links, route, to.node, in, socket);
        memory_to_device(links, route, to.node, socket, gpu_device(links, to.index));
    }
}

/* The link of a pair of nodes: a * (2 nodes - a - 1) / 2 pairs start with a node before a. */
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

/* From one site to the other: up, over what the pair has, down. */
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

/* Over the switches between two nodes. */
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

void dl_links_route(const dl_links *links, dl_place from, dl_place to, dl_route *route)
{
    route->count = 0;
    route->latency_ns = route->message_ns = 0;
    route->staged = route->leaves_node = false;
    if (from.node != to.node) {
        /* A NIC sends down the tree's edge towards itself, like a GPU. */
        route->leaves_node = true;
        route->message_ns = links->message_ns;
        route_out(links, route, from);
        if (links->core >= 0) add_link_to(route, links->core);
        if (links->fabric >= 0) cross_fabric(links, route, from, to);
        cross_sites(links, route, dl_machine_site(links->machine, from.node),
                    dl_machine_site(links->machine, to.node));
        if (links->pairs >= 0) add_link_to(route, pair_link(links, from.node, to.node));
        route_in(links, route, to);
    } else if (from.kind == DL_PLACE_GPU && to.kind == DL_PLACE_GPU) {
        route_gpus(links, route, from.node, from.index, to.index);
    } else if (from.kind == DL_PLACE_GPU) {
        device_to_memory(links, route, from.node, gpu_device(links, from.index), to.index);
    } else if (to.kind == DL_PLACE_GPU) {
        memory_to_device(links, route, from.node, from.index, gpu_device(links, to.index));
    } else {
        cross(links, route, from.node, links->memory[from.index]);
        change_socket(links, route, from.node, from.index, to.index);
        cross(links, route, from.node, links->memory[to.index]);
    }
}

double dl_links_route_rate(const dl_links *links, const dl_route *route)
{
    double rate = INFINITY;
    for (int i = 0; i < route->count; i++)
        rate = fmin(rate, dl_links_capacity(links, route->links[i]) / route->uses[i]);
    return rate;
}
