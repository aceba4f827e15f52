/* The links of a machine, and the route of a copy over them.
 *
 * Each edge of the machine (GPU to PCIe switch, switch to root complex, root to root, NVLink, NIC
 * to network, ...) is two directed links, plus a third one for both directions if the machine file
 * limits their sum. A socket's memory is one link, for reads and writes; the total rate of a
 * socket's devices is a pair of links ("root").
 *
 *   GPU to GPU of a node    NVLink if there is one between them, otherwise NVSwitch, otherwise the
 *                           PCIe tree if the machine's `peer` allows; otherwise staged: down to the
 *                           host's memory and up again, pipelined, so that the memory is crossed
 *                           twice. Collectives between GPUs with neither NVLink nor a common PCIe
 *                           switch with peer access are staged as well if the machine file has
 *                           [shm], and cross one more link per GPU for all its staged traffic: NCCL
 *                           uses its shared-memory transport there (ncclTopoCheckP2p in
 *                           src/graph/paths.cc). So do copies by the driver, unless the file has
 *                           their rate
 *   GPU to host             the PCIe tree up to its root, and the memory of the given socket
 *   node to node            through the nearest NIC on each side (in turn if several are equally
 *                           near), staged through host memory without `gpudirect`: copies and
 *                           collectives between GPUs then cross the links of [shm], too, as a GPU
 *                           writes and reads the same kind of buffer
 *
 * A staged copy is one flow over both halves: it has the rate of the slower one and the latencies
 * of both. Not modelled: two hops over NVLink, and the GPUs' memory, which is faster than any link
 * to it.
 *
 * Link l of node k has number k * per_node + l, where per_node is the largest number of links of
 * any kind of node; other kinds leave gaps. The numbers that follow are: the network's core, if the
 * file limits it; two links of each site (up, down) and two of each pair of sites (from the first
 * to the second, back); those of the fabric (sim/network/fabric.h); and a link for each pair of
 * nodes, if the traffic between two nodes is limited (dl_links_limit_network). Rates are bytes per
 * second, latencies ns. */
#ifndef DL_SIM_LINKS_H
#define DL_SIM_LINKS_H

#include "common/machine.h"

/* Longest route: staged on both nodes, through DL_MACHINE_MAX_DEPTH switches each time. */
#define DL_ROUTE_MAX 192
#define DL_LINK_NAME_BYTES 96

/* An edge: link numbers within the node; -1: no such link. */
typedef struct dl_edge {
    int up, down; /* links towards the root of the tree (of an NVLink: from a to b), and back */
    int both;
} dl_edge;

/* The links of a node of one kind. */
typedef struct dl_node_links {
    const dl_node_kind *kind; /* borrowed from the machine */
    int count;
    double *capacity;                        /* [count] bytes per second */
    double *latency_ns;                      /* [count] */
    double *in_file[2];                      /* capacity and latency_ns as in the machine file */
    char (*name)[DL_LINK_NAME_BYTES];        /* [count] names such as "gpu3 up" */
    dl_edge *gpu, *pcie_switch, *nic, *port; /* per GPU, switch, NIC; port: from the NIC to the
                                              * network */
    dl_edge *root;                           /* [sockets] */
    dl_edge *socket_pair;                    /* [sockets * sockets], used only for a < b */
    dl_edge *nvlink;                         /* [NVLinks of the node kind] */
    dl_edge *nvswitch;                       /* [GPUs]; NULL without NVSwitch */
    int *memory;                             /* [sockets] link numbers */
    int *shm;                                /* [GPUs] links of [shm]; NULL: collectives use the
                                              * routes of copies */
    int *gpu_nic, *host_nic; /* [GPUs], [sockets] NIC for copies to other nodes; -1: no NIC */
} dl_node_links;

typedef struct dl_links {
    const dl_machine *machine; /* borrowed */
    int count;                 /* number of links of all nodes and the network */
    int per_node;              /* link numbers per node */
    int core;                  /* number of the link of the network's core; -1: not limited */
    int sites;                 /* first link of the sites; -1: no sites */
    double site_capacity;      /* capacity of each link of the sites; NAN: as in the machine file */
    int fabric;                /* first link between switches; -1: no fabric */
    int pairs;            /* first link of pairs of nodes: (0, 1), (0, 2), ...; -1: not limited */
    double pair_capacity; /* capacity of a pair's link, for both directions together */
    double slice_ns;      /* time per slice sent to another node, at the sender */
    dl_node_links *kinds; /* [node kinds of the machine] */
    int *slots;           /* [nodes] slots of the nodes in the fabric; NULL without a fabric */
} dl_links;

typedef enum dl_place_kind { DL_PLACE_GPU, DL_PLACE_HOST } dl_place_kind;

/* One end of a copy: GPU `index` of the node, or the memory of socket `index`. */
typedef struct dl_place {
    dl_place_kind kind;
    int node, index;
} dl_place;

/* Converts a GPU number over all nodes to a place, and back. */
dl_place dl_place_of_gpu(const dl_machine *machine, int number);
int dl_place_gpu_number(const dl_machine *machine, dl_place gpu);

typedef struct dl_route {
    int count;
    int links[DL_ROUTE_MAX];          /* link numbers, each once */
    unsigned char uses[DL_ROUTE_MAX]; /* number of times that a byte crosses the link */
    double latency_ns;                /* sum of the latencies of links and switches */
    bool staged;                      /* GPU to GPU through host memory */
    bool leaves_node;
    double slice_ns; /* sender's time per slice of a collective, in addition to that of its bytes */
} dl_route;

/* Builds the links; `machine` must outlive them. dl_links_free accepts a zeroed object. */
void dl_links_init(dl_links *links, const dl_machine *machine);
void dl_links_free(dl_links *links);

/* Limits on routes between nodes; NAN: unchanged, unless stated otherwise. */
typedef struct dl_network_limits {
    double bytes_per_s;      /* rate of each NIC's port, per direction */
    double pair_bytes_per_s; /* rate between two nodes, both directions together; NAN: no limit */
    double latency_ns;       /* total latency of both ports */
    double site_bytes_per_s; /* rate of each link of the sites; NAN: as in the machine file */
    double slice_ns;         /* time per slice sent to another node, at the sender */
} dl_network_limits;

/* Sets *limited to a copy of the links with other limits between nodes. It borrows everything
 * except its capacities and latencies, which dl_links_free_limited frees; `links` must outlive
 * it. */
void dl_links_limit_network(const dl_links *links, const dl_network_limits *limits,
                            dl_links *limited);
void dl_links_free_limited(dl_links *limited);

/* Sets *nominal to a copy of the links in which the links of nodes have the capacities and
 * latencies of the machine file, without scaling, and the network has no limits but the machine's;
 * free it with dl_links_free_limited. */
void dl_links_in_file(const dl_links *links, dl_links *nominal);

const dl_node_links *dl_links_node(const dl_links *links, int node);

/* The socket that a GPU is connected to. */
int dl_links_socket(const dl_links *links, dl_place gpu);

/* Capacity of link number `link` in bytes per second, > 0. */
double dl_links_capacity(const dl_links *links, int link);

/* Writes "node1 gpu3 up" to `text` and returns it. */
const char *dl_links_name(const dl_links *links, int link, char text[DL_LINK_NAME_BYTES]);

/* Finds the route from one place to another. Between equal places it is empty for a GPU, and
 * crosses the memory twice (read and write) for a host. Indices must exist. O(depth of the
 * tree). */
void dl_links_route(const dl_links *links, dl_place from, dl_place to, dl_route *route);

/* Finds the route of a collective's transfer, which between GPUs may differ from that of a copy.
 * `one_way`: no GPU sends and receives simultaneously, so the links of [shm], which limit both
 * directions together, are not crossed. */
void dl_links_route_collective(const dl_links *links, dl_place from, dl_place to, bool one_way,
                               dl_route *route);

/* Whether the places are two GPUs of one node with neither NVLink, NVSwitch nor a common PCIe
 * switch with peer access. */
bool dl_links_in_slots(const dl_links *links, dl_place from, dl_place to);

/* Whether a collective's transfer between the two GPUs goes through host memory with [shm]. */
bool dl_links_by_shm(const dl_links *links, dl_place from, dl_place to);

/* The number of the NIC for copies between `place` and other nodes; the machine must have one. */
int dl_links_nic(const dl_links *links, dl_place place);

/* Rate of a single flow on the route, in bytes per second; INFINITY if the route is empty. */
double dl_links_route_rate(const dl_links *links, const dl_route *route);

#endif
