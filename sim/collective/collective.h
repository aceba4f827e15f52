/* Collective operations of a group of ranks, as flows on a machine's links.
 *
 * A collective starts when its last rank has arrived, takes the protocol's launch time, then the
 * time of its transfers on the network, which it shares with all other traffic. Bytes are counted
 * as in nccl-tests: a rank's buffer for all-reduce, reduce, broadcast and all-to-all (in which each
 * rank sends bytes / n to each other rank), all ranks' parts together for all-gather and
 * reduce-scatter.
 *
 * Fidelity. `phase`: one flow for each edge of a phase, preceded by the latencies of all rounds (n
 * flows for a ring). `chunk`: every chunk of every round is a transfer that waits for the one it
 * depends on. On otherwise idle links the two agree within 3 % (nvls_tree: 4 %, over three nodes 7
 * %); `chunk` costs as many events as there are chunks.
 *
 * On idle links, with n ranks, S bytes, B bytes per second of each edge, a = latency and hop time,
 * C chunks, pieces of p bytes, tree height h (Thakur, Rabenseifner & Gropp 2005; Sanders, Speck &
 * Traff 2009 for the two trees):
 *
 *   ring          all-reduce             2 (n-1) (a + S / (n B)); if edges differ, the sum of
 *                                        a + S / (n B) over a piece's way, or 2 (n-1) S / (n B) of
 *                                        the slowest if that is more (rounds_lead_ns in rings.c)
 *                 all-gather, reduce-scatter the same with n-1 for 2 (n-1)
 *                 broadcast, reduce      (n-1) a + S/B (1 + (n-2)/C)         pipelined chain
 *   tree          all-reduce             2 (h a + S/B (1 + (h-1)/(2C)))      two trees, half each
 *                 broadcast, reduce      h a + S/B (2 + (h-1)/C)             one binary tree
 *                 (a level with two children on one link counts twice in h-1)
 *   node_tree     all-reduce             the same two trees over N nodes for each NIC, and a chain
 *                                        over the m ranks of each: h = m-1 + log2 N
 *   hierarchical  all-reduce             reduce-scatter in each node, rings between the nodes over
 *                                        equal parts, all-gather in each node
 *   two_level     all-reduce             of k groups of m ranks that have equal values: rings of k
 *                                        over equal parts, all-gather in each group: 2 (k-1)
 *                                        (a + S / (n B)) + (m-1) (a + S / (m B)); m rings together
 *                                        between the groups
 *   pairwise      all-to-all             (n-1) (a + S / (n B))
 *   nvls          all-reduce             2 a + S/B (1 + 1/n) + p/B (1 - 1/n)   the NVSwitch of one
 *                                        node sums, if the machine file says that it can (sum_frac)
 *   nvls_tree     all-reduce             the same in each of N nodes, and between them two trees
 *                                        over the nodes for each rank's part (nvls.c)
 *
 * Not modelled: the time of summing (hidden behind the transfers), and summing by the switches
 * between nodes. */
#ifndef DL_SIM_COLLECTIVE_H
#define DL_SIM_COLLECTIVE_H

#include "sim/collective/collective_cost.h"
#include "sim/collective/plan.h"

typedef enum dl_collective_kind {
    DL_ALLREDUCE,
    DL_REDUCE,
    DL_BROADCAST,
    DL_ALLGATHER,
    DL_REDUCE_SCATTER,
    DL_ALLTOALL,
    DL_COLLECTIVE_KINDS
} dl_collective_kind;

extern const char *const dl_collective_kind_names[DL_COLLECTIVE_KINDS];

typedef enum dl_fidelity { DL_FIDELITY_PHASE, DL_FIDELITY_CHUNK } dl_fidelity;

extern const char *const dl_fidelity_names[3];

typedef struct dl_collective_config {
    dl_collective_kind kind;
    const char *algorithm; /* a name, or "auto": NCCL's choice if the machine file names NCCL
                            * (sim/collective/nccl.h), otherwise the fastest on the idle machine */
    dl_fidelity fidelity;
    const dl_place *ranks; /* [rank_count] all different; the ranks of a node are consecutive */
    int rank_count;        /* number of ranks, >= 1 */
    /* > 0, for an all-reduce: groups of this many consecutive ranks already have equal values. If
     * there are several groups of equal size, "two_level" replaces `algorithm`. */
    int equal_ranks;
    double bytes;       /* size of the buffer as counted above, >= 0 */
    int root;           /* root rank of reduce and broadcast */
    double chunk_bytes; /* > 0; chunk size of pipelined chains and trees */
    double message_ns;  /* >= 0; cost of each hop, in addition to the protocol's */
    double pause_ns;    /* >= 0; time since these nodes last sent data, which matters over TCP */
    /* [measured_count] collectives measured as a whole, borrowed; with algorithm "auto" a matching
     * one replaces the transfers. */
    const dl_collective_cost *measured;
    size_t measured_count;
    int transfers_max; /* limit on the plan's transfers; 0 = none */
} dl_collective_config;

/* Limits on the transfers of all collectives of a run: held in memory (about 2.5 GB), and run in
 * sequence (about half an hour). */
#define DL_TRANSFERS_HELD_MAX 20000000
#define DL_TRANSFERS_RUN_MAX 1e9

/* Chunk size: one step of NCCL's buffer, 4 MiB in 8 steps (NCCL_BUFFSIZE, NCCL_STEPS). */
#define DL_CHUNK_BYTES 524288.0
/* Messages that would fill few chunks use smaller chunks. Both numbers are assumed. */
#define DL_CHUNKS_WANTED 64
#define DL_CHUNK_MIN_BYTES 1024.0
#define DL_CHUNKS_MAX 256 /* larger messages use larger chunks, to limit the number of events */

typedef struct dl_collective_algorithm {
    const char *name;
    /* Whether the algorithm supports this kind for these ranks. */
    bool (*supports)(const dl_collective_config *config);
    /* Adds the algorithm's transfers to an empty plan, for at least two ranks. */
    void (*plan)(dl_plan *plan, const dl_collective_config *config);
    /* Whether the machine supports the algorithm; NULL = every machine does. */
    bool (*available)(const dl_links *links, const dl_collective_config *config);
    /* Whether "auto" considers the algorithm for this collective; NULL = always. */
    bool (*automatic)(const dl_collective_config *config);
    bool simple_only; /* excludes protocols "ll" and "ll128" if the machine has another one */
} dl_collective_algorithm;

extern const dl_collective_algorithm dl_collective_ring, dl_collective_tree,
    dl_collective_node_tree, dl_collective_hierarchical, dl_collective_two_level,
    dl_collective_pairwise, dl_collective_nvls, dl_collective_nvls_tree;

/* A collective, which can be run any number of times in sequence. */
typedef struct dl_collective {
    dl_plan plan;
    const dl_collective_algorithm *algorithm; /* NULL for one rank */
    dl_collective_config config; /* for a folded plan all members, from which it may be rebuilt;
                                  * otherwise only kind and bytes */
    dl_place *ranks;             /* copy for a folded plan; otherwise NULL */
    const char *protocol;        /* name; NULL = the machine has no protocols */
    int64_t launch_ns;
    bool measured; /* the whole time was measured and is launch_ns */
    int rank_count, arrived;
    dl_event_fn done;
    void *user;
    int index;
} dl_collective;

/* Plans the collective for a network that has the links of `links`; both are borrowed. DL_ERR_NAME
 * (unknown algorithm), DL_ERR_UNSUPPORTED (the algorithm does not support this), DL_ERR_RANGE (more
 * than transfers_max transfers; detected before memory is allocated for them). The network needs
 * room for plan.transfer_count more flows, the engine for 2 events each and 2 more. The collective
 * must not be moved in memory. */
dl_status dl_collective_init(dl_collective *collective, dl_network *network, const dl_links *links,
                             const dl_collective_config *config, dl_error *err) DL_MUST_CHECK;
void dl_collective_free(dl_collective *collective); /* accepts a zeroed collective */

/* Checks that a run of `exchanges` exchanges with `transfers` transfers each ends in reasonable
 * time; otherwise DL_ERR_RANGE, with the scenario's keys to change. */
dl_status dl_collective_check_run(dl_fidelity fidelity, double transfers, double exchanges,
                                  dl_error *err) DL_MUST_CHECK;

/* Total bytes of all transfers in a run; sums in an NVSwitch count on the way in and out. */
double dl_collective_sent_bytes(const dl_collective *collective);

/* Sets a callback: done(user, index) is called at the end of each run. */
void dl_collective_on_done(dl_collective *collective, dl_event_fn done, void *user, int index);

/* Records that another rank has arrived; the last one starts the collective. */
void dl_collective_arrive(dl_collective *collective);

/* Sets *time_ns to the time from the last arrival to the end without other traffic. */
dl_status dl_collective_idle_ns(const dl_links *links, const dl_collective_config *config,
                                double *time_ns, dl_error *err) DL_MUST_CHECK;

/* Sets *algorithm and *protocol to the names of the ones used ("ring", "ll128"); NULL for one rank,
 * and *protocol if the machine has no protocols. */
dl_status dl_collective_choice(const dl_links *links, const dl_collective_config *config,
                               const char **algorithm, const char **protocol,
                               dl_error *err) DL_MUST_CHECK;

#endif
