/* NCCL's choice of algorithm and protocol, and the costs of its calls and hops: the timing model by
 * which it tunes itself (NVIDIA/nccl, src/graph/tuning.cc of version 2.26).
 *
 * Time = latency + bytes / bandwidth for each algorithm (tree, ring, NVLS, NVLS tree) and protocol.
 * LL writes a flag beside each 4 bytes and needs no fence; LL128 writes one for each 120 bytes,
 * over NVLink only; Simple moves whole chunks between fences. The latency consists of the call and
 * the hops on a piece's way, inside and between nodes; the bandwidth is that of the links, times
 * the protocol's fraction, with a correction for trees of medium size.
 *
 * The choice exactly follows the version given in the machine file or scenario, with the bandwidths
 * of the machine file's links (NVLinks capped at NCCL's figures, topo.h): NCCL tunes itself without
 * knowing the rates of a cost file or a shaped port. The simulated transfers use, for every
 * version, 2.26's latencies of calls and hops, and the fraction of the bandwidth that a protocol
 * reaches, corrected for trees by LL and LL128. The correction of trees by Simple is left out: it
 * accounts for chunks, which are simulated. Rings by LL get a quarter or a third of the bandwidth,
 * as in version 2.20 and in tables measured on A100, not half of it as in 2.26.
 *
 * The model's bandwidths are those of channels, whose number and kind NCCL finds by search
 * (search.cc): as many as a node's links and ports can carry, and on Hopper whether a tree's NIC
 * serves one GPU both ways, which costs 15 % of its rate. Rates are not rounded to those of NCCL's
 * list.
 *
 * Sums in the NVSwitches of several nodes use trees between the nodes (NVLS tree, since 2.18).
 *
 * Not modelled: sums in the network's switches (CollNet, and NVLS over them, which need a plugin
 * for SHARP), PAT (all-gathers and reduce-scatters of nodes with one GPU each), NVLS for kinds
 * other than all-reduce, and latencies that a network plugin specifies. */
#ifndef DL_SIM_NCCL_H
#define DL_SIM_NCCL_H

#include "sim/collective/collective.h"

typedef enum dl_nccl_algorithm {
    DL_NCCL_TREE,
    DL_NCCL_RING,
    DL_NCCL_NVLS,
    DL_NCCL_NVLS_TREE,
    DL_NCCL_ALGORITHMS
} dl_nccl_algorithm;

typedef enum dl_nccl_protocol {
    DL_NCCL_LL,
    DL_NCCL_LL128,
    DL_NCCL_SIMPLE,
    DL_NCCL_PROTOCOLS
} dl_nccl_protocol;

/* "ll", "ll128", "simple": also names of [protocol] sections. */
extern const char *const dl_nccl_protocol_names[DL_NCCL_PROTOCOLS];

/* The ranks of a communicator, as NCCL sees them. */
typedef struct dl_nccl_group {
    int ranks, nodes, channels;
    int minor;      /* NCCL's version is 2.minor */
    int generation; /* 0 = Volta and before, 1 = Ampere, 2 = Hopper, 3 = Blackwell */
    bool before_volta;
    bool nvlink;               /* GPUs of a node are connected by NVLink */
    bool ll128;                /* LL128 is allowed */
    bool amd;                  /* AMD processors */
    bool sums;                 /* the NVSwitch of each node can sum */
    bool simple_tree;          /* a tree's NIC sends to and from the same GPU */
    double inside_frac;        /* rate that NCCL assumes for a node's rings over that of the machine
                                * file's links */
    double inside_bytes_per_s; /* rate of a node's rings; INFINITY if no node has several ranks */
    double ring_bytes_per_s, tree_bytes_per_s; /* total rates of all channels */
} dl_nccl_group;

/* Sets the group of ranks[count], count >= 2; each node's ranks must be consecutive. */
void dl_nccl_group_init(dl_nccl_group *group, const dl_links *links, const dl_place *ranks,
                        int count);

/* NCCL's own estimate in ns; INFINITY for combinations that it lacks or does not allow. */
double dl_nccl_time_ns(const dl_nccl_group *group, dl_collective_kind kind, double bytes,
                       dl_nccl_algorithm algorithm, dl_nccl_protocol protocol);

/* Chooses the algorithm and protocol with the smallest of these estimates (before 2.5: by NCCL's
 * thresholds), among the algorithms whose bit (1 << algorithm) is set. Returns false if NCCL has
 * none of them. */
bool dl_nccl_choose(const dl_nccl_group *group, dl_collective_kind kind, double bytes,
                    unsigned algorithms, dl_nccl_algorithm *algorithm, dl_nccl_protocol *protocol);

/* The protocol of a message from one rank to another in an all-to-all. */
dl_nccl_protocol dl_nccl_sends_by(double bytes);

/* Costs of a call and its hops in the simulation, for this algorithm and protocol. */
dl_hop_costs dl_nccl_costs(const dl_nccl_group *group, dl_collective_kind kind, double bytes,
                           dl_nccl_algorithm algorithm, dl_nccl_protocol protocol);

#endif
