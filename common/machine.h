/* A machine file: nodes (GPUs, PCIe tree, NVLink, NICs, host), their number, and the network
 * between them. Nodes are of one or more kinds, which may differ in all parts of a node.
 *
 * The format, with an example, is in docs/formats.md; the keys are in dl_machine_keys, docs/keys.md
 * and dlsim --keys.
 *
 * A parent is socketN or the name of a switch; link, port and socket_link name a [link]. Values are
 * quantities (common/quantity.h); a link's rates are those achieved by programs, below the wire
 * rates.
 *
 *        socket0 ======= socket1       === socket_link
 *        /     \            |
 *      plx0    plx1        nic0        each edge of the tree is a [link], both directions
 *      /  \    /  \
 *    gpu0 gpu1 2   3
 *
 * Not modelled: more than one NVSwitch plane. */
#ifndef DL_COMMON_MACHINE_H
#define DL_COMMON_MACHINE_H

#include <stdint.h>

#include "common/keys.h"

#define DL_MACHINE_MAX_PARTS 1024 /* parts of one type in a node; sections of one type in a file */
#define DL_MACHINE_MAX_DEPTH 6    /* levels of PCIe switches */

/* Pairs of GPUs in a node that copy without host memory, in addition to pairs joined by NVLink. */
typedef enum dl_peer {
    DL_PEER_NONE,
    DL_PEER_SWITCH, /* GPUs with a common PCIe switch */
    DL_PEER_SOCKET, /* GPUs on the same socket */
    DL_PEER_ALL
} dl_peer;

typedef enum dl_arithmetic { DL_FP32, DL_TF32, DL_FP16, DL_BF16, DL_FP8, DL_NVFP4 } dl_arithmetic;
#define DL_ARITHMETICS 6
extern const char *const dl_arithmetic_names[DL_ARITHMETICS + 1]; /* "fp32", ..., "nvfp4", NULL */

/* Matrix products of a linear layer: for its output, and for the gradients of its input and its
 * weights. */
typedef enum dl_product_pass {
    DL_PRODUCT_FORWARD,
    DL_PRODUCT_DATA,
    DL_PRODUCT_WEIGHT
} dl_product_pass;
#define DL_PRODUCT_PASSES 3
extern const char *const dl_product_pass_names[DL_PRODUCT_PASSES + 1]; /* "forward", ..., NULL */

/* Separately measured kernels of a GPU (dlprof bench shapes). A product takes fixed_ns + (bytes of
 * weights) / bytes_per_s + max(flop / flop_per_s, (other bytes) / bytes_per_s). */
typedef struct dl_product_rates {
    dl_quantity flop_per_s, bytes_per_s, fixed_ns;
} dl_product_rates;

/* Kinds of kernels that move data. DL_MOVE_PLAIN: sums and all others without a kind of their own;
 * their rates are also those of kinds that were not measured. */
typedef enum dl_move_kind {
    DL_MOVE_PLAIN,
    DL_MOVE_NORM,
    DL_MOVE_ACTIVATION,
    DL_MOVE_LOSS,
    DL_MOVE_UPDATE
} dl_move_kind;
#define DL_MOVES 5
extern const char *const dl_move_names[DL_MOVES + 1]; /* "move", "norm", "activation", ..., NULL */

/* Rate of reads and writes together, and time per kernel. */
typedef struct dl_move_rates {
    dl_quantity bytes_per_s, fixed_ns;
} dl_move_rates;

typedef struct dl_attention_rates {
    dl_quantity flop_per_s, fixed_ns;
} dl_attention_rates;

typedef struct dl_gpu_kernels {
    bool known; /* products and DL_MOVE_PLAIN are known */
    dl_product_rates products[DL_PRODUCT_PASSES];
    dl_move_rates moves[DL_MOVES];
    dl_attention_rates
        attention[2];      /* of the forward and the backward pass; unknown: as products */
    dl_quantity sustained; /* time of a layer in a loop / sum of its kernels' times; unknown: 1 */
    dl_quantity launch_ns; /* host time to launch a kernel from a program that does nothing else */
} dl_gpu_kernels;

typedef struct dl_gpu_model {
    char *name;
    dl_quantity memory_bytes, memory_bytes_per_s;
    /* Peak rates, to be read by dl_gpu_model_flop_per_s; unknown: the GPU lacks the arithmetic. */
    dl_quantity fp32_flop_per_s, tf32_flop_per_s, fp16_flop_per_s, bf16_flop_per_s, fp8_flop_per_s,
        nvfp4_flop_per_s;
    dl_quantity compute_capability; /* e.g. 8.6 */
    /* Clock under load / clock of the peak rates: estimated compute times are divided by it.
     * Unknown: 1. */
    dl_quantity clock_frac;
    dl_gpu_kernels kernels[DL_ARITHMETICS];
} dl_gpu_model;

/* Returns the arithmetic of the products that programs make in `arithmetic`: fp32 for fp16 on a GPU
 * whose fp16 is not faster. PyTorch asks cuDNN for sums in fp32 (ATen/cudnn/Descriptors.h), and a
 * GTX 1080 Ti, whose fp16 units have 1/64 of fp32's rate, then trains ResNet-152 1.07 times and
 * VGG16 1.12 times as fast as in fp32 (u39kun/deep-learning-benchmark, PyTorch 0.3). */
dl_arithmetic dl_gpu_model_products(const dl_gpu_model *model, dl_arithmetic arithmetic);

/* Returns the peak rate of matrix products, borrowed; unknown: the GPU lacks the arithmetic. If a
 * file gives tf32 but not bf16, bf16 has fp16's rate: NVIDIA's GPUs since Ampere support both at
 * equal rates (A100, GA102, Ada, H100 white papers). The rate of fp16 is that of the products'
 * arithmetic. */
const dl_quantity *dl_gpu_model_flop_per_s(const dl_gpu_model *model, dl_arithmetic arithmetic);

typedef struct dl_link_class {
    char *name;
    dl_quantity bytes_per_s;        /* > 0, each direction */
    dl_quantity duplex_bytes_per_s; /* > 0, sum of both directions; unknown: no such limit */
    dl_quantity latency_ns;
} dl_link_class;

/* Places in the PCIe tree: 0 .. sockets-1 are the sockets, followed by the switches. */
typedef struct dl_pcie_switch {
    char *name;
    int parent; /* place */
    int link;   /* link class */
} dl_pcie_switch;

typedef struct dl_gpu {
    int model, parent, link;
} dl_gpu;

typedef struct dl_nic {
    int parent, link;
    int port; /* class of the link to the network */
} dl_nic;

typedef struct dl_nvlink {
    int a, b; /* GPUs, a < b */
    int link; /* link class of one lane */
    int lanes;
} dl_nvlink;

/* A kind of node. Nodes without a [nodes] section have kind 0. */
typedef struct dl_node_kind {
    char *name;                         /* NULL for kind 0, and for a kind that differs only in GPU
                                         * models */
    uint64_t own;                       /* bit set over the keys of a node kind, in the order of
                                         * dl_machine_keys: values that the kind's own sections
                                         * determine */
    dl_quantity price_usd_per_hour;     /* price per node; excludes gpu_price_usd_per_hour */
    dl_quantity gpu_price_usd_per_hour; /* price per used GPU */
    dl_peer peer;
    dl_quantity staged_bytes_per_s; /* rate of a copy between GPUs of a node that the driver makes
                                     * through host memory; unknown: limited by its links and
                                     * shm_bytes_per_s */
    bool gpudirect;                 /* NICs and GPUs copy without host memory */
    /* shm_bytes_per_s is the sum of the rates at which a GPU exchanges data with other GPUs through
     * host memory: in collectives without a common NVLink or PCIe switch, or without peer access,
     * in copies without peer access, and in both between nodes without gpudirect; unknown: limited
     * by the links only, and collectives take the routes of copies. For those collectives
     * overlap_slowdown is the slowdown of computation during collectives inside the node, >= 1;
     * unknown: that of the cost file. */
    dl_quantity shm_bytes_per_s, overlap_slowdown;

    int sockets;
    bool amd;                       /* the processors are AMD's */
    int cores;                      /* 0: unknown */
    dl_quantity memory_bytes;       /* host memory */
    dl_quantity memory_bytes_per_s; /* memory rate of a socket, reads plus writes */
    dl_quantity root_bytes_per_s;   /* rate of all devices of a socket, each direction; unknown: no
                                   * limit */
    dl_quantity server_bytes_per_s; /* rate of a process that also serves workers on other nodes,
                                     * sent plus received; unknown: limited by the links only */
    int socket_link;                /* link class; -1: not given, with one socket only */
    int nvswitch_link;              /* link class; -1: no NVSwitch */
    dl_quantity nvswitch_sum_frac;  /* fraction of the link's rate for reductions in the NVSwitch, 0
                                    * < frac <= 1; unknown: the switch cannot reduce */
    dl_pcie_switch *switches;
    dl_gpu *gpus; /* [gpu_count], >= 1 */
    dl_nic *nics;
    dl_nvlink *nvlinks;
    int switch_count, gpu_count, nic_count, nvlink_count;
} dl_node_kind;

/* A run of consecutive nodes of one kind, up to the start of the next run. The last run is
 * unbounded, so that a caller may change the number of nodes. */
typedef struct dl_node_run {
    int first, kind;
    int first_gpu; /* number of GPUs of the preceding nodes */
} dl_node_run;

/* Library of collectives. NCCL's constants and choices are known (sim/collective/nccl.h);
 * [protocol] sections describe other libraries. */
typedef enum dl_library { DL_LIBRARY_OTHER, DL_LIBRARY_NCCL } dl_library;

/* Versions of NCCL: "default", "2.4", ..., NULL; the values of [machine] and [exchange] nccl. */
extern const char *const dl_nccl_versions[];
#define DL_NCCL_OLDEST_MINOR 4
#define DL_NCCL_DEFAULT_MINOR 26 /* newest version whose choices were compared with benchmarks */

/* A protocol of the collectives library: the time of a call, of each hop inside a node and between
 * nodes in addition to the links' latencies, and the achieved fraction of the links' rates. Of
 * several protocols the fastest for the size is used (NCCL: LL, LL128, Simple). */
#define DL_PROTOCOL_NAME_BYTES 64
typedef struct dl_protocol {
    char *name; /* under DL_PROTOCOL_NAME_BYTES bytes; "ll128 ring", "ll128 tree": for one
                 * algorithm */
    dl_quantity launch_ns, hop_ns, network_hop_ns;
    dl_quantity bandwidth_frac; /* 0 < frac <= 1 */
} dl_protocol;

/* TCP messages between nodes (sim/network/tcp.h). */
typedef struct dl_tcp {
    bool given;
    double time_factor;                /* factor of all its times: 1, or less to study their
                                        * effect */
    int sockets;                       /* sockets per channel between two nodes */
    int channels;                      /* channels that share the bytes of a collective */
    dl_quantity mtu_bytes;             /* size of a packet, including its IP header */
    dl_quantity window_bytes;          /* window per socket; unknown: never limits */
    dl_quantity socket_bytes_per_s;    /* wire rate per socket; unknown: only ports limit */
    dl_quantity queue_ns, queue_bytes; /* the queue before a port holds queue_ns at the port's rate
                                        * plus queue_bytes; both unknown: unbounded */
} dl_tcp;

/* A site with an equal share of consecutive nodes: of n nodes and k sites, the first n / k (rounded
 * up) are at the first site. */
typedef struct dl_site {
    char *name;
    dl_quantity bytes_per_s; /* rate to other sites, each direction; unknown: not limited */
    dl_quantity latency_ns;  /* latency to other sites, added to that of pairs; unknown: 0 */
} dl_site;

/* Limits between two sites, in addition to those of each site. */
typedef struct dl_site_pair {
    int a, b;                            /* sites, a < b */
    dl_quantity bytes_per_s, latency_ns; /* as in dl_site; latency: one way */
} dl_site_pair;

/* Switches between nodes (sim/network/fabric.h). */
typedef enum dl_fabric_kind {
    DL_FABRIC_NONE, /* all ports meet in one place, which [network] bytes_per_s may limit */
    DL_FABRIC_FAT_TREE,
    DL_FABRIC_RAIL,
    DL_FABRIC_DRAGONFLY,
    DL_FABRIC_TORUS,
    DL_FABRIC_SWITCHES /* a tree given by [netswitch] sections */
} dl_fabric_kind;

enum { DL_FABRIC_IDEAL, DL_FABRIC_ECMP };       /* spreading */
enum { DL_FABRIC_PACKED, DL_FABRIC_SCATTERED }; /* placement */

enum { DL_FABRIC_BY_NODES, DL_FABRIC_BY_SWITCHES }; /* rank_order */

#define DL_FABRIC_DEPTH_MAX 32 /* maximum depth of a tree of [netswitch]es */

/* A [netswitch]. The total rate of its uplinks is uplink_ports * (a node port's rate) +
 * uplink_fixed. */
typedef struct dl_net_switch {
    char *name;
    int parent;                        /* -1: root */
    dl_quantity uplink_bytes_per_s;    /* rate in the file; unknown: derived from the ports below */
    dl_quantity oversubscription;      /* >= 1; unknown: 1 */
    dl_quantity background_frac;       /* background load of its uplinks; unknown: that of
                                        * [fabric] */
    int uplinks;                       /* number of uplinks; 0 while reading the file: becomes
                                        * uplink_ports, rounded */
    int first_uplink;                  /* index of its first uplink among those of all switches */
    double uplink_ports, uplink_fixed; /* derived from the members above */
} dl_net_switch;

/* Periodic traffic of another job: each GPU of node from[i] sends to the GPU with the same index in
 * node to[i]; size and period are the same for all pairs. */
typedef struct dl_traffic {
    char *name;
    int *from, *to; /* [count] node indices */
    int count;
    dl_quantity bytes;    /* bytes per node and period, shared equally by its GPUs */
    dl_quantity every_ns; /* period */
} dl_traffic;

#define DL_FABRIC_DIMENSIONS 3
#define DL_FABRIC_SIZE_MAX 64 /* maximum size of a torus in each dimension */

typedef struct dl_fabric {
    int kind;         /* dl_fabric_kind */
    int group_nodes;  /* >= 1 for a fat tree, rails and a dragonfly */
    int pod_groups;   /* 0: the tree has two levels */
    int router_nodes; /* nodes per router of a dragonfly, >= 1 */
    int global_links; /* links between each pair of a dragonfly's groups */
    int spreading, placement, rank_order;
    dl_traffic *traffic;
    int traffic_count;
    int *slots; /* [slot_count] slots of the nodes, in node order; NULL: by placement */
    int slot_count, slot_end; /* the largest slot is slot_end - 1 */
    dl_net_switch *switches;
    int switch_count;
    int *switch_of; /* [switch_slots] switch of each slot, with [netswitch]es */
    int switch_slots;
    int size[DL_FABRIC_DIMENSIONS]; /* size of a torus, 1 to DL_FABRIC_SIZE_MAX each */
    dl_quantity oversubscription, pod_oversubscription; /* >= 1; unknown: 1 */
    dl_quantity link_bytes_per_s; /* rate per link of a torus or dragonfly; unknown: the ports'
                                   * rate */
    dl_quantity hop_ns;           /* unknown: 0 */
    dl_quantity background_frac;  /* 0 <= frac < 1; unknown: 0 */
} dl_fabric;

extern const char *const dl_fabric_kind_names[]; /* "none", "fat_tree", ..., NULL */
extern const char *const dl_fabric_spreadings[]; /* "ideal", "ecmp", NULL */
extern const char *const dl_fabric_placements[]; /* "packed", "scattered", NULL */
extern const char *const dl_fabric_orders[];     /* "nodes", "switches", NULL */

/* Rows of [network] and [tcp] in machine files and scenarios; values of the scenario override those
 * of the machine file. FIELD(member) gives a row's owner and offset; ONE is the default of counts:
 * "1", or NULL where the value stays as it is. */
#define DL_NETWORK_ROWS(FIELD, SWEEP, ONE)                                                       \
    {"network",                                                                                  \
     "bytes_per_s",                                                                              \
     DL_NETWORK_NUMBER(BYTES_PER_S, 1e3, 1e15, true),                                            \
     FIELD(network_bytes_per_s),                                                                 \
     .sweep = SWEEP,                                                                             \
     .help = "rate of the core that joins the nodes; default: no limit"},                        \
        {"network",                                                                              \
         "first_use_ns",                                                                         \
         DL_NETWORK_NUMBER(NS, 0, 1e12, true),                                                   \
         FIELD(first_use_ns),                                                                    \
         .sweep = SWEEP,                                                                         \
         .help = "the library's setup: before the first step of allreduce, or at a run's first " \
                 "average"},                                                                     \
        {"tcp",                                                                                  \
         "sockets",                                                                              \
         DL_FABRIC_WHOLE(1, 64),                                                                 \
         .fallback = ONE,                                                                        \
         FIELD(tcp.sockets),                                                                     \
         .sweep = SWEEP,                                                                         \
         .help = "parallel sockets of a channel (default 1). With this section nodes exchange "  \
                 "over TCP, and ports have the wire's rate"},                                    \
        {"tcp",                                                                                  \
         "channels",                                                                             \
         DL_FABRIC_WHOLE(1, 32),                                                                 \
         .fallback = ONE,                                                                        \
         FIELD(tcp.channels),                                                                    \
         .sweep = SWEEP,                                                                         \
         .help = "channels that share the bytes of a collective (default 1)"},                   \
        {"tcp",                                                                                  \
         "mtu_bytes",                                                                            \
         DL_NETWORK_NUMBER(BYTES, 576, 65535, false),                                            \
         FIELD(tcp.mtu_bytes),                                                                   \
         .sweep = SWEEP,                                                                         \
         .help = "maximum packet size, IP header included; default: 1500"},                      \
        {"tcp",                                                                                  \
         "window_bytes",                                                                         \
         DL_NETWORK_NUMBER(BYTES, 1, 1e10, false),                                               \
         FIELD(tcp.window_bytes),                                                                \
         .sweep = SWEEP,                                                                         \
         .help = "maximum in flight on a socket; default: no limit"},                            \
        {"tcp",                                                                                  \
         "socket_bytes_per_s",                                                                   \
         DL_NETWORK_NUMBER(BYTES_PER_S, 1e3, 1e15, true),                                        \
         FIELD(tcp.socket_bytes_per_s),                                                          \
         .sweep = SWEEP,                                                                         \
         .help = "rate of a socket (5 Gb/s between EC2 instances outside a placement group); "   \
                 "default: no limit"},                                                           \
        {"tcp",                                                                                  \
         "queue_ns",                                                                             \
         DL_NETWORK_NUMBER(NS, 0, 1e9, true),                                                    \
         FIELD(tcp.queue_ns),                                                                    \
         .sweep = SWEEP,                                                                         \
         .help = "queue before a port, as time at its rate (latency of tc's token bucket); "     \
                 "default without queue_bytes: no limit"},                                       \
    {                                                                                            \
        "tcp", "queue_bytes", DL_NETWORK_NUMBER(BYTES, 1, 1e10, false), FIELD(tcp.queue_bytes),  \
            .sweep = SWEEP, .help = "added to queue_ns (burst of tc's token bucket)"             \
    }
#define DL_NETWORK_NUMBER(dimension_, low_, high_, bounds_)                                      \
    .type = DL_KEY_QUANTITY, .dimension = DL_DIMENSION_##dimension_, .low = low_, .high = high_, \
    .bounds = bounds_

/* Rows of [fabric] in machine files and scenarios; values of the scenario override those of the
 * machine file. FIELD(member) gives a row's owner and offset. */
#define DL_FABRIC_ROWS(FIELD, SWEEP)                                                             \
    {"fabric",                                                                                   \
     "topology",                                                                                 \
     DL_KEY_CHOICE,                                                                              \
     .choices = dl_fabric_kind_names,                                                            \
     FIELD(kind),                                                                                \
     .sweep = SWEEP,                                                                             \
     .help = "switches between the nodes' ports. Default: none, only [network] bytes_per_s "     \
             "limits"},                                                                          \
        {"fabric",                                                                               \
         "group_nodes",                                                                          \
         DL_FABRIC_WHOLE(1, 4096),                                                               \
         FIELD(group_nodes),                                                                     \
         .sweep = SWEEP,                                                                         \
         .only = "topology = fat_tree, rail, dragonfly",                                         \
         .help = "nodes under a leaf switch (fat_tree) or in a group; required"},                \
        {"fabric",                                                                               \
         "oversubscription",                                                                     \
         DL_FABRIC_PURE(1, 1e3),                                                                 \
         FIELD(oversubscription),                                                                \
         .sweep = SWEEP,                                                                         \
         .only = "topology = fat_tree, rail",                                                    \
         .help = "rate of a leaf's ports over that of its uplinks; default: 1"},                 \
        {"fabric",                                                                               \
         "pod_groups",                                                                           \
         DL_FABRIC_WHOLE(0, 4096),                                                               \
         FIELD(pod_groups),                                                                      \
         .sweep = SWEEP,                                                                         \
         .only = "topology = fat_tree, rail",                                                    \
         .help = "groups in a pod, which adds a third level of switches; default: 0, no pods"},  \
        {"fabric",                                                                               \
         "pod_oversubscription",                                                                 \
         DL_FABRIC_PURE(1, 1e3),                                                                 \
         FIELD(pod_oversubscription),                                                            \
         .sweep = SWEEP,                                                                         \
         .only = "topology = fat_tree, rail",                                                    \
         .help = "rate of all uplinks of a pod's leaves over that of the pod's uplinks; "        \
                 "default: 1"},                                                                  \
        {"fabric",                                                                               \
         "spreading",                                                                            \
         DL_KEY_CHOICE,                                                                          \
         .choices = dl_fabric_spreadings,                                                        \
         FIELD(spreading),                                                                       \
         .sweep = SWEEP,                                                                         \
         .only = "topology = fat_tree, rail, switches",                                          \
         .help = "ideal (default): flows use uplinks evenly; ecmp: a hash assigns each flow to " \
                 "one"},                                                                         \
        {"fabric",                                                                               \
         "placement",                                                                            \
         DL_KEY_CHOICE,                                                                          \
         .choices = dl_fabric_placements,                                                        \
         FIELD(placement),                                                                       \
         .sweep = SWEEP,                                                                         \
         .only = "topology",                                                                     \
         .help = "slots of the nodes. packed (default): group by group; scattered: round-robin " \
                 "over groups (switches: over those with nodes)"},                               \
        {"fabric",                                                                               \
         "slots",                                                                                \
         DL_KEY_OWN,                                                                             \
         FIELD(slots),                                                                           \
         .form = "a, b-c, ...",                                                                  \
         .only = "topology",                                                                     \
         .help = "slot of each node, from 0, group by group, in place of placement"},            \
        {"fabric",           "rank_order",                                                       \
         DL_KEY_CHOICE,      .choices = dl_fabric_orders,                                        \
         FIELD(rank_order),  .sweep = SWEEP,                                                     \
         .only = "topology", .help = "ranks are numbered by node (default) or by slot"},         \
        {"fabric",                                                                               \
         "router_nodes",                                                                         \
         DL_FABRIC_WHOLE(1, 4096),                                                               \
         FIELD(router_nodes),                                                                    \
         .sweep = SWEEP,                                                                         \
         .only = "topology = dragonfly",                                                         \
         .help = "nodes at a router; default: 1"},                                               \
        {"fabric",                                                                               \
         "global_links",                                                                         \
         DL_FABRIC_WHOLE(1, 4096),                                                               \
         FIELD(global_links),                                                                    \
         .sweep = SWEEP,                                                                         \
         .only = "topology = dragonfly",                                                         \
         .help = "links between every two groups, each direction; default: 1"},                  \
        {"fabric",                                                                               \
         "size_x",                                                                               \
         DL_FABRIC_WHOLE(1, DL_FABRIC_SIZE_MAX),                                                 \
         FIELD(size[0]),                                                                         \
         .sweep = SWEEP,                                                                         \
         .only = "topology = torus",                                                             \
         .help = "switches in the first dimension, one node each; required"},                    \
        {"fabric",                                                                               \
         "size_y",                                                                               \
         DL_FABRIC_WHOLE(1, DL_FABRIC_SIZE_MAX),                                                 \
         FIELD(size[1]),                                                                         \
         .sweep = SWEEP,                                                                         \
         .only = "topology = torus",                                                             \
         .help = "switches in the second dimension; default: 1"},                                \
        {"fabric",                                                                               \
         "size_z",                                                                               \
         DL_FABRIC_WHOLE(1, DL_FABRIC_SIZE_MAX),                                                 \
         FIELD(size[2]),                                                                         \
         .sweep = SWEEP,                                                                         \
         .only = "topology = torus",                                                             \
         .help = "switches in the third dimension; default: 1"},                                 \
        {"fabric",                                                                               \
         "link_bytes_per_s",                                                                     \
         .type = DL_KEY_QUANTITY,                                                                \
         .dimension = DL_DIMENSION_BYTES_PER_S,                                                  \
         .low = 1e3,                                                                             \
         .high = 1e15,                                                                           \
         FIELD(link_bytes_per_s),                                                                \
         .sweep = SWEEP,                                                                         \
         .only = "topology = torus, dragonfly",                                                  \
         .help = "rate of a link between switches; default: the ports' rate"},                   \
        {"fabric",                                                                               \
         "hop_ns",                                                                               \
         .type = DL_KEY_QUANTITY,                                                                \
         .dimension = DL_DIMENSION_NS,                                                           \
         .low = 0,                                                                               \
         .high = 1e9,                                                                            \
         FIELD(hop_ns),                                                                          \
         .sweep = SWEEP,                                                                         \
         .only = "topology",                                                                     \
         .help = "latency of each switch after a route's first; default: 0"},                    \
    {                                                                                            \
        "fabric", "background_frac", DL_FABRIC_PURE(0, 0.99), FIELD(background_frac),            \
            .sweep = SWEEP, .only = "topology",                                                  \
            .help = "fraction of every link between switches that other jobs use; default: 0"    \
    }
#define DL_FABRIC_WHOLE(low_, high_) .type = DL_KEY_INT, .low = low_, .high = high_
#define DL_FABRIC_PURE(low_, high_) \
    .type = DL_KEY_QUANTITY, .dimension = DL_DIMENSION_PURE, .low = low_, .high = high_

/* The key `source` of a section: where its numbers with bounds come from. */
typedef struct dl_machine_source {
    char *section, *text;
} dl_machine_source;

/* A parsed machine file. Owns all its memory; release with dl_machine_free. */
typedef struct dl_machine {
    char *path, *name;
    int nodes;
    dl_library library;
    int nccl; /* index into dl_nccl_versions; any but the first implies that the library is NCCL */
    dl_quantity network_bytes_per_s; /* rate of the network core; unknown: never limits */
    dl_quantity first_use_ns;        /* added to the first exchange of a run; unknown: 0 */
    dl_tcp tcp;
    dl_fabric fabric;
    dl_site *sites;
    dl_site_pair *site_pairs;
    int site_count, site_pair_count;

    dl_gpu_model *models;
    dl_link_class *classes;
    dl_node_kind *kinds; /* [kind_count], >= 1 */
    dl_node_run *runs;   /* [run_count], >= 1, ascending; the first starts at node 0 */
    dl_protocol *protocols;
    dl_machine_source *sources;
    int model_count, class_count, kind_count, run_count, protocol_count, source_count;
} dl_machine;

/* Returns the `source` of a section, named as in dl_machine_each; NULL if there is none.
 * Borrowed. */
const char *dl_machine_source_of(const dl_machine *machine, const char *section);

/* All keys of machine files. */
extern const dl_keys dl_machine_keys;

/* Returns the row of a key, also in a section of a kind of nodes ("host of t4"); NULL if there is
 * none. */
const dl_key *dl_machine_find_key(const char *section, const char *name);

/* Reads `path` and checks names, ranges, and that everything is connected. `machine` must be
 * zeroed; free it after success. */
dl_status dl_machine_read(dl_machine *machine, const char *path, dl_error *err) DL_MUST_CHECK;

/* Reads a machine file from memory; errors call it `name`. `text` may hold any bytes. */
dl_status dl_machine_read_text(dl_machine *machine, const char *name, const char *text,
                               size_t bytes, dl_error *err) DL_MUST_CHECK;

/* Returns the site of a node; 0 if the machine has no sites. Sites have equal numbers of nodes, up
 * to rounding. */
int dl_machine_site(const dl_machine *machine, int node);

/* Divides the nodes among `count` >= 1 sites, named 1, 2, ..., in place of those of the file,
 * without limits and latencies. */
void dl_machine_set_sites(dl_machine *machine, int count);

/* Sets the time of a message from any site to any other, one way, in place of the file's. */
void dl_machine_set_site_latency(dl_machine *machine, double ns);

/* Network domains: the sites, or the nodes if the machine has no sites. Return their number, and
 * the domain of a node. */
int dl_machine_domains(const dl_machine *machine);
int dl_machine_domain(const dl_machine *machine, int node);

/* Checks that the nodes of [traffic] exist and that the switches between nodes are complete, with a
 * slot for each node, after the caller may have changed the number of nodes. Returns DL_ERR_DATA,
 * DL_ERR_RANGE or DL_ERR_UNSUPPORTED, without a file. */
dl_status dl_machine_check_fabric(const dl_machine *machine, dl_error *err) DL_MUST_CHECK;

/* Checks that an int can hold the number of GPUs, after the caller may have changed the number of
 * nodes. Returns DL_ERR_RANGE, without a file. */
dl_status dl_machine_check_gpus(const dl_machine *machine, dl_error *err) DL_MUST_CHECK;

/* Makes the nodes exchange over TCP, with Ethernet's MTU of 1500 bytes unless the machine gives
 * one. */
void dl_machine_take_tcp(dl_machine *machine);

/* Reads [fabric] slots of a machine file or a scenario into the machine, if given, in place of
 * earlier ones. Returns DL_ERR_PARSE or DL_ERR_RANGE. */
dl_status dl_machine_read_slots(dl_machine *machine, const dl_ini *ini,
                                dl_error *err) DL_MUST_CHECK;

/* Releases all memory; accepts a zeroed object. */
void dl_machine_free(dl_machine *machine);

/* Returns the minor version of NCCL 2, such as 26 for 2.26; 0 for another library. */
int dl_machine_nccl(const dl_machine *machine);

/* Return the kind of a node: its index, and the kind itself. O(log(runs)). */
int dl_machine_kind(const dl_machine *machine, int node);
const dl_node_kind *dl_machine_node(const dl_machine *machine, int node);

/* Returns the kind that gives the links of a node: kind 0 if the node's kind differs from it only
 * in GPU models, else the node's kind. */
int dl_machine_links_kind(const dl_machine *machine, int node);

/* Returns whether the nodes' kinds differ in more than GPU models. */
bool dl_machine_has_unlike_nodes(const dl_machine *machine);

/* Returns whether some node has a port of a class that the first node lacks. */
bool dl_machine_has_unlike_ports(const dl_machine *machine);

/* Return the number of GPUs of the first `nodes` nodes, which may exceed the machine's nodes; and
 * of all nodes. */
int dl_machine_gpus_before(const dl_machine *machine, int nodes);
int dl_machine_gpus(const dl_machine *machine);

/* Returns the node of GPU `number`, counted from 0 over all nodes; *index is the GPU's index in the
 * node. */
int dl_machine_find_gpu(const dl_machine *machine, int number, int *index);

/* Returns the number of nodes required for `gpus` GPUs, at least the machine's; nodes beyond those
 * of the file have kind 0. */
int64_t dl_machine_nodes_for(const dl_machine *machine, int64_t gpus);

/* Parses "3" or "0-7", numbers below `count`; returns false for another text. */
bool dl_machine_parse_range(const char *text, int count, int *first, int *last);

/* Return the largest number of GPUs, and the smallest number of NICs, over the machine's nodes. */
int dl_machine_most_gpus(const dl_machine *machine);
int dl_machine_fewest_nics(const dl_machine *machine);

/* Return the model of GPU `index` of a node: its index, and the model itself. */
int dl_machine_model_number(const dl_machine *machine, int node, int index);
const dl_gpu_model *dl_machine_model(const dl_machine *machine, int node, int index);

/* Returns whether some GPU of the machine has the model with this index. */
bool dl_machine_has_model(const dl_machine *machine, int model);

/* Calls visit(user, "link nvlink2", key, quantity) for every quantity that may have bounds, known
 * or unknown: rates, latencies, fractions of rates, slowdowns. Not visited: the peak rates of GPUs,
 * [kernels], [fabric], [netswitch], [traffic] and sites. */
typedef void (*dl_machine_visit_fn)(void *user, const char *section, const dl_key *key,
                                    dl_quantity *quantity);
void dl_machine_each(dl_machine *machine, dl_machine_visit_fn visit, void *user);

/* Returns the place above `place` in the PCIe tree, -1 for a socket. */
int dl_machine_parent(const dl_node_kind *node, int place);

/* Returns the socket above (or at) `place`. */
int dl_machine_socket(const dl_node_kind *node, int place);

/* Returns the number of the NVLink between two GPUs, -1 if there is none. */
int dl_machine_nvlink(const dl_node_kind *node, int a, int b);

#endif
