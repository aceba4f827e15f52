/* The links of a machine, and the route of a copy over them.
 *
 * Each edge of the machine (GPU to PCIe switch, switch to root complex, root to root, NVLink, NIC
 * to network, ...) is two directed links, plus a third one for both directions where the machine
 * file limits their sum. A socket's memory is one link, for reads and writes; the total rate of a
 * socket's devices is a pair of links ("root").
 *
 *   GPU to GPU of a node    NVLink if there is one between them, else NVSwitch; else the PCIe tree,
 *                           if the machine's `peer` allows; else staged: down to the host's memory
 *                           and up again, pipelined, so that the memory is crossed twice.
 *                           Collectives between GPUs with neither NVLink nor a common PCIe switch
 *                           with peer access are staged as well where the machine file has [shm],
 *                           and cross one more link per GPU for all its staged traffic: NCCL uses
 *                           its shared-memory transport there (ncclTopoCheckP2p in
 *                           src/graph/paths.cc)
 *   GPU to host             the PCIe tree up to its root, and the memory of the socket asked for
 *   node to node            by the nearest NIC on each side (in turn where some are equally near),
 *                           staged through host memory without `gpudirect`
 *
 * A staged copy is one flow over both halves: it goes at the rate of the slower one and has the
 * latencies of both. Not modelled: two hops over NVLink, and the GPUs' own memory, which is faster
 * than any link to it.
 *
 * Link l of node k has number k * per_node + l, where per_node is the largest number of links of
 * any kind of node; other kinds leave gaps. After them come the network's core, if the file limits
 * it; two links of each site (up, down) and two of each pair of sites (from the first to the
 * second, back); those of the fabric (sim/network/fabric.h); and a link for each pair of nodes, if
 * the traffic between two nodes is limited (dl_links_limit_network). Rates are bytes a second,
 * latencies ns.
 */
#ifndef DL_SIM_LINKS_H
#define DL_SIM_LINKS_H

#include "common/machine.h"

/* Longest route: staged on both nodes, through DL_MACHINE_MAX_DEPTH switches each time. */
#define DL_ROUTE_MAX 192
#define DL_LINK_NAME_BYTES 96

/* An edge: link numbers within the node; -1 = no such link. */
typedef struct dl_edge {
    int up, down; /* towards the root of the tree (from a to b of an NVLink), and back */
    int both;
} dl_edge;

/* The links of a node of one kind. */
typedef struct dl_node_links {
    const dl_node_kind *kind; /* borrowed */
    int count;
    double *capacity;                        /* [count] bytes a second */
    double *latency_ns;                      /* [count] */
    double *in_file[2];                      /* both as in the machine file */
    char (*name)[DL_LINK_NAME_BYTES];        /* [count] "gpu3 up" */
    dl_edge *gpu, *pcie_switch, *nic, *port; /* of each GPU, switch, NIC; port: NIC to network */
    dl_edge *root;                           /* [sockets] */
    dl_edge *socket_pair;                    /* [sockets * sockets], used for a < b */
    dl_edge *nvlink;                         /* as in the machine */
    dl_edge *nvswitch;                       /* of each GPU; NULL without one */
    int *memory;                             /* [sockets] link numbers */
    int *shm;                                /* of each GPU; NULL: collectives go as copies do */
    int *gpu_nic, *host_nic; /* [GPUs], [sockets] NIC for copies to other nodes; -1: none */
} dl_node_links;

typedef struct dl_links {
    const dl_machine *machine; /* borrowed */
    int count;                 /* of all nodes */
    int per_node;              /* numbers of a node's links; no kind has more */
    int core;                  /* number, -1 = not limited */
    int sites;                 /* first of the sites' links; -1 = there are none */
    double site_capacity;      /* of all of them; NAN: as the machine file says */
    int fabric;                /* first link between switches; -1 likewise */
    int pairs;                 /* of nodes 0 and 1, then 0 and 2, ...; -1 likewise */
    double pair_capacity;      /* of both directions together */
    double slice_ns;           /* per slice sent to another node, at the sender */
    dl_node_links *kinds;      /* as in the machine */
    int *slots;                /* [nodes] of the fabric; NULL without one */
} dl_links;

typedef enum dl_place_kind { DL_PLACE_GPU, DL_PLACE_HOST } dl_place_kind;

/* One end of a copy: GPU `index` of the node, or the memory of its socket `index`. */
typedef struct dl_place {
    dl_place_kind kind;
    int node, index;
} dl_place;

/* GPU `number`, counted over all nodes, and back. */
dl_place dl_place_of_gpu(const dl_machine *machine, int number);
int dl_place_gpu_number(const dl_machine *machine, dl_place gpu);

typedef struct dl_route {
    int count;
    int links[DL_ROUTE_MAX];          /* numbers, each once */
    unsigned char uses[DL_ROUTE_MAX]; /* how often a byte crosses the link */
    double latency_ns;                /* sum over the links */
    bool staged;                      /* GPU to GPU through host memory */
    bool leaves_node;
    double slice_ns; /* sender's time per slice of a collective, beside its bytes */
} dl_route;

/* `machine` must outlive the links. dl_links_free accepts a zeroed object. */
void dl_links_init(dl_links *links, const dl_machine *machine);
void dl_links_free(dl_links *links);

/* Limits of routes between nodes; NAN: those of the machine file. */
typedef struct dl_network_limits {
    double bytes_per_s;      /* of each NIC's port, each direction */
    double pair_bytes_per_s; /* between two nodes, both directions together; NAN: none */
    double latency_ns;       /* of both ports together */
    double site_bytes_per_s; /* of all links between sites */
    double slice_ns;         /* see dl_links; NAN: none */
} dl_network_limits;

/* Makes *limited a copy of the links with other limits between nodes. It borrows all but its
 * capacities and latencies, which dl_links_free_limited releases; `links` must outlive it. */
void dl_links_limit_network(const dl_links *links, const dl_network_limits *limits,
                            dl_links *limited);
void dl_links_free_limited(dl_links *limited);

/* Makes *nominal a copy of the links, released like a limited one, with the capacities and
 * latencies of the machine file, without any limit or scaling. */
void dl_links_in_file(const dl_links *links, dl_links *nominal);

/* The links of a node. */
const dl_node_links *dl_links_node(const dl_links *links, int node);

/* The socket that a GPU is attached to. */
int dl_links_socket(const dl_links *links, dl_place gpu);

/* Capacity of link number `link` in bytes a second, > 0. */
double dl_links_capacity(const dl_links *links, int link);

/* Writes "node1 gpu3 up" to `text` and returns it. */
const char *dl_links_name(const dl_links *links, int link, char text[DL_LINK_NAME_BYTES]);

/* The route from one place to another. Between equal places it is empty for a GPU, and crosses the
 * memory twice (read and write) for a host. Indices must exist. O(depth of the tree). */
void dl_links_route(const dl_links *links, dl_place from, dl_place to, dl_route *route);

/* The route of a collective's transfer, which between GPUs may differ from a copy's. `one_way`:
 * neither GPU sends and receives at the same time, so limits on both directions together do not
 * apply. */
void dl_links_route_collective(const dl_links *links, dl_place from, dl_place to, bool one_way,
                               dl_route *route);

/* Whether two GPUs of a node have neither NVLink nor a PCIe switch with peer access in common. */
bool dl_links_in_slots(const dl_links *links, dl_place from, dl_place to);

/* Whether a collective's transfer between the two GPUs goes through host memory by [shm]. */
bool dl_links_by_shm(const dl_links *links, dl_place from, dl_place to);

/* The NIC that copies between `place` and other nodes use; the machine must have one. */
int dl_links_nic(const dl_links *links, dl_place place);

/* The rate of one flow alone on the route, in bytes a second; INFINITY on an empty one. */
double dl_links_route_rate(const dl_links *links, const dl_route *route);

#endif
