/* Constants of NCCL's versions, in us and GB/s, shared by the sources of the NCCL model. */
#ifndef DL_SIM_NCCL_INTERNAL_H
#define DL_SIM_NCCL_INTERNAL_H

#include "sim/collective/nccl.h"

enum { DL_NCCL_NVLINK, DL_NCCL_PCI, DL_NCCL_NET, DL_NCCL_WAYS };
#define DL_NCCL_GENERATIONS 4
#define DL_NCCL_CORRECTED_SIZES 23

typedef double dl_nccl_by_algorithm[DL_NCCL_ALGORITHMS][DL_NCCL_PROTOCOLS];
typedef double dl_nccl_by_nodes[3]; /* values for 1, 2 and more nodes. */
/* Correction factors of trees, by powers of two from 64 bytes. */
typedef double dl_nccl_by_size[DL_NCCL_CORRECTED_SIZES];

/* Upper limits by GPU generation, per channel. Those of LL are for all channels together and, over
 * several nodes, by processor (index 1: AMD, 0: others). */
typedef struct dl_nccl_bounds {
    dl_nccl_by_nodes ll[DL_NCCL_GENERATIONS], ll128_ring[DL_NCCL_GENERATIONS],
        ll128_tree[DL_NCCL_GENERATIONS], tree[DL_NCCL_GENERATIONS];
} dl_nccl_bounds;

/* Constants of a version, and of later versions up to the next entry in the table. */
typedef struct dl_nccl_constants {
    int minor;                                  /* first version, 2.minor */
    const double (*call_us)[DL_NCCL_PROTOCOLS]; /* [ALGORITHMS] time of a call by algorithm and
                                                 * protocol */
    const dl_nccl_by_algorithm *hop_us;         /* [WAYS] time of a hop by its way and algorithm */
    const dl_nccl_bounds *most;
    const dl_nccl_by_size *correction;               /* [PROTOCOLS] correction of trees' bandwidth
                                                      * by size */
    double tree_frac, tree_ll_frac, tree_ll128_frac; /* tree_ll128_frac: only between nodes */
    double simple_tree_frac;              /* fraction for trees whose NIC serves one GPU */
    double bus_most[DL_NCCL_GENERATIONS]; /* limit for all channels together; INFINITY =
                                                      * none */
    double ll_inner_factor;               /* factor on LL's hops inside nodes if there
                                                      * are several nodes */
    double plateau[DL_NCCL_GENERATIONS];  /* factor on the latency of rings by Simple, from
                                           * plateau_bytes on */
    /* number of bytes per rank from which the plateau applies; 0: 64 bytes per rank and channel */
    double plateau_bytes;
    /* An all-reduce by ring over n nodes has 2 n minus this number of steps between nodes. */
    int outer_steps_less;
    bool all_outer;     /* all steps of a ring over nodes count as steps between nodes */
    bool lone_by_trees; /* with one GPU per node, rings use the network hops of trees */
    bool posts;         /* each message also takes the time to post it */
    double nvls_part;   /* fraction of NVLS' rate; 0 = by nvls_efficiency */
} dl_nccl_constants;

/* Efficiency of NVLS, by generation (2.28). */
extern const double dl_nccl_nvls_efficiency[DL_NCCL_GENERATIONS];

/* The constants of the latest version up to 2.minor; at least those of 2.5. */
const dl_nccl_constants *dl_nccl_constants_of(int minor);

#endif
