#include "sim/network/links.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"

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

void dl_links_init(dl_links *links, const dl_machine *machine)
{
    *links = (dl_links){.machine = machine, .core = -1, .pairs = -1};
    add_sockets(links);
    add_devices(links);
    add_nvlinks(links);
    links->count = machine->nodes * links->per_node;
    if (machine->network_bytes_per_s.known) links->core = links->count++;
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

double dl_links_capacity(const dl_links *links, int link)
{
    if (link == links->core) return links->machine->network_bytes_per_s.value;
    if (links->pairs >= 0 && link >= links->pairs) return links->pair_capacity;
    return links->capacity[link % links->per_node];
}

const char *dl_links_name(const dl_links *links, int link, char text[DL_LINK_NAME_BYTES])
{
    if (link == links->core) {
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
