/* The transfers of a collective and their order: each transfer, between two places, starts when its
 * predecessors have ended.
 *
 *     transfer 0  gpu0 -> gpu1 --.
 *                                 >-- join 2 -- transfer 3  gpu1 -> gpu2      a join moves nothing
 *     transfer 1  gpu1 -> gpu2 --'
 *
 * A plan is made once per collective and size, and run on the network any number of times.
 *
 * With its links to itself, a plan takes the same time in each run, which is computed once. If no
 * two concurrent transfers share a link that limits them, each moves at the rate of its slowest
 * link, whatever the others do; otherwise the plan is run on a separate network. A run that finds
 * its links idle claims them (sim/network/network.h) and is one event. When another flow enters one
 * of the links, the run continues transfer by transfer from its current state, with the same result
 * as if it had been simulated in this way from the start. A plan may be folded (fold.h) as long as
 * its runs are such events. */
#ifndef DL_SIM_COLLECTIVE_PLAN_H
#define DL_SIM_COLLECTIVE_PLAN_H

#include "sim/collective/fold.h"
#include "sim/network/network.h"

typedef struct dl_transfer {
    int class; /* flow class; -1 = a join */
    bool leaves_node;
    int domain; /* domain that its bytes leave (dl_machine_domain); -1 = they stay in one domain */
    double bytes;
    int64_t delay_ns; /* delay before bytes move */
    int before_count; /* number of transfers that must end first */
    int first_after;  /* first entry in dl_plan.after, -1 = none */
} dl_transfer;

typedef struct dl_after {
    int transfer, next;
} dl_after;

/* Costs of a call with a protocol and of its hops, within a node and over the network. A hop's time
 * includes up to `held_ns` of the route's latency; the rest of the latency is added. */
typedef struct dl_hop_costs {
    double launch_ns;
    double hop_ns, network_hop_ns;
    double held_ns, network_held_ns;
    double message_ns;         /* additional cost of every hop: the host's cost per message */
    double network_message_ns; /* part of network_hop_ns in which the sender sends nothing else */
    double bandwidth_frac;     /* fraction of the links' rates that the protocol reaches */
    double network_frac;       /* additional factor between nodes */
} dl_hop_costs;

/* A run that has its links to itself. */
typedef struct dl_plan_alone {
    bool is_known, is_possible; /* is_known: the other members are computed; is_possible: the run
                                 * ends within the clock's range */
    bool is_apart;              /* no two transfers limit each other */
    int64_t time_ns;
    int *links; /* [link_count] links that the plan uses, each once */
    double *link_bytes;
    int link_count;
} dl_plan_alone;

typedef struct dl_plan {
    dl_network *network; /* borrowed */
    const dl_links *links;
    dl_hop_costs costs;
    dl_transfer *transfers;
    dl_after *after;
    int transfer_count, transfer_room, after_count;
    bool one_way; /* set before transfers are added: no rank sends and receives simultaneously */
    bool counts_only; /* transfers are counted but not stored */
    /* Owned; NULL: not folded. A folded plan has only the transfers of the first line. Their
     * classes in the folded network have no flows of other plans. */
    dl_fold *fold;
    bool is_whole; /* must not be folded; set before transfers are added */
    void (*make)(struct dl_plan *plan, const void *how); /* rebuilds it, unfolded if is_whole */
    const void *how;
    double *sent_bytes; /* [domains of the machine] bytes sent to other domains per run; NULL: none
                         * yet */

    int *waiting; /* [transfer_count] in this run: number of predecessors that have not ended */
    int running;  /* number of transfers that have not ended */
    dl_plan_alone alone;
    int claim;         /* claim of this run; -1 = simulated transfer by transfer */
    int64_t since_ns;  /* start of the run */
    int event;         /* event of the run's end, if it has a claim */
    int kept, broken;  /* numbers of claims kept to the end of their run, and of broken claims whose
                        * run had to be simulated again */
    int64_t *start_ns; /* [transfer_count] start, or DL_TRANSFER_*; NULL: not recorded */
    int *classes;      /* [class_count of the network that the transfers' classes belong to] class
                        * in `network`, + 1; NULL: that network is `network` */
    bool is_apart;     /* always run transfer by transfer; set before the first run, for tests and
                        * for runs on a separate network */
    dl_event_fn done;
    void *user;
    int index;
} dl_plan;

/* Initialises an empty plan. dl_plan_free accepts a zeroed one. */
void dl_plan_init(dl_plan *plan, dl_network *network, const dl_links *links,
                  const dl_hop_costs *costs);
void dl_plan_free(dl_plan *plan);

/* Sets *route to the route of a transfer. */
void dl_plan_route(const dl_plan *plan, dl_place from, dl_place to, dl_route *route);

/* Adds a transfer of `bytes`, which counts as bytes / bandwidth_frac (between nodes also /
 * network_frac). Its bytes move after `hops` times the time of a hop on its route (the protocol's
 * hop time, the route's latency beyond that, costs of slices and messages) plus `extra_ns`. Returns
 * its number. */
int dl_plan_add(dl_plan *plan, dl_place from, dl_place to, double bytes, int hops, double extra_ns);

/* Adds a transfer of `bytes`, which counts as bytes / bandwidth_frac, over one link in one
 * direction, and over `both` unless that is -1. Returns its number. */
int dl_plan_add_link(dl_plan *plan, int link, int both, double bytes);

/* Adds a copy of a transfer, without its dependencies, and returns its number. */
int dl_plan_repeat(dl_plan *plan, int transfer);

/* Adds a join and returns its number. */
int dl_plan_join(dl_plan *plan);

/* Adds a join that takes `delay_ns` >= 0 and returns its number. */
int dl_plan_wait(dl_plan *plan, double delay_ns);

/* Adds a chunk of a pipeline as two transfers: a hop time without bytes, then the bytes, whose
 * number is returned. The second waits for `before`, the previous chunk on the same edge (-1 =
 * none). Transfers that the chunk depends on must be ordered before the first, so that its latency
 * passes while others still move. */
int dl_plan_add_chunk(dl_plan *plan, dl_place from, dl_place to, double bytes, int before);

/* Makes `later` start after the end of `earlier`; no effect if `earlier` is -1. */
void dl_plan_order(dl_plan *plan, int earlier, int later);

/* Time in ns of one hop on the route, or between the places: the protocol's hop time, the part of
 * the route's latency that this does not include, and the costs of a message of one slice. */
double dl_plan_hop_on(const dl_plan *plan, const dl_route *route);
double dl_plan_hop_ns(const dl_plan *plan, dl_place from, dl_place to);

/* Largest message of NCCL's rings over the network: ALLREDUCE_SLICESTEPS = 2 of the NCCL_STEPS = 8
 * parts of a 4 MiB buffer (src/include/collectives.h). */
#define DL_SLICE_BYTES 1048576.0

/* Time in ns for which a message of `bytes` occupies its sender, in addition to the transfer of its
 * bytes: the host's cost and, between nodes, the protocol's cost per message and the network's per
 * slice. dl_plan_hop_ns includes the host's cost and one slice. */
double dl_plan_message_ns(const dl_plan *plan, dl_place from, dl_place to, double bytes);

/* The fraction of the links' rates that messages on the route reach. */
double dl_plan_frac(const dl_plan *plan, const dl_route *route);

/* Rate of the route without other traffic, in bytes of the collective per second. */
double dl_plan_rate(const dl_plan *plan, const dl_route *route);

/* Computes the time of a run on idle links now instead of in the first run, so that the memory it
 * needs is free again before other plans allocate theirs. */
void dl_plan_prepare(dl_plan *plan);

/* Starts a run of the plan, which must have a transfer and not be running; calls done(user, index)
 * at its end (unless NULL). The network needs room for as many flows as transfers can run
 * concurrently. */
void dl_plan_run(dl_plan *plan, dl_event_fn done, void *user, int index);

#endif
