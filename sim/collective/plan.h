/* What a collective sends, and in which order: transfers between places, each of which starts when
 * those before it have ended.
 *
 *     transfer 0  gpu0 -> gpu1 --.
 *                                 >-- join 2 -- transfer 3  gpu1 -> gpu2      a join moves nothing
 *     transfer 1  gpu1 -> gpu2 --'
 *
 * A plan is made once for a collective of a size, and run on the network any number of times.
 *
 * Alone on its links it takes the same time in each run, which is worked out once. If no two
 * transfers at a time share a link that limits them, each takes what its bytes take at the rate of
 * its narrowest link, whatever the others do; else the plan is run on a network of its own. A run
 * that finds its links idle claims them (sim/network/network.h) and is one event. When somebody
 * else comes to one of the links, the run goes on transfer by transfer from where it is then, as if
 * it had always done so. A plan may be folded (fold.h) as long as its runs are such events.
 */
#ifndef DL_SIM_COLLECTIVE_PLAN_H
#define DL_SIM_COLLECTIVE_PLAN_H

#include "sim/collective/fold.h"
#include "sim/network/network.h"

typedef struct dl_transfer {
    int class; /* of flows; -1 = a join */
    bool leaves_node;
    int domain; /* that its bytes leave (dl_machine_domain); -1 = they stay in one */
    double bytes;
    int64_t delay_ns; /* before bytes move */
    int before_count; /* transfers that must end first */
    int first_after;  /* list in dl_plan.after, -1 = none */
} dl_transfer;

typedef struct dl_after {
    int transfer, next;
} dl_after;

/* What a call with a protocol costs, and its hops: those inside a node, and those over the network.
 * A hop's time is on top of the links' latencies, of which `held_ns` are in it already. */
typedef struct dl_hop_costs {
    double launch_ns;
    double hop_ns, network_hop_ns;
    double held_ns, network_held_ns;
    double message_ns;         /* of every hop on top of that: what a message costs the host */
    double network_message_ns; /* of network_hop_ns, while which its sender sends nothing else */
    double bandwidth_frac;     /* part of the links' rates that is reached */
    double network_frac;       /* and of that, on ways between nodes */
} dl_hop_costs;

/* What a run is while nobody else uses its links. */
typedef struct dl_plan_alone {
    bool is_known, is_possible; /* worked out; it ends */
    bool is_apart;              /* no two transfers limit each other */
    int64_t time_ns;
    int *links; /* [link_count] that bytes cross, each once */
    double *link_bytes;
    int link_count;
} dl_plan_alone;

typedef struct dl_plan {
    dl_network *network; /* borrowed */
    const dl_links *links;
    dl_hop_costs costs;
    dl_transfer *transfers;
    dl_after *after;
    int transfer_count, transfer_room, after_count, after_room;
    bool one_way;     /* set before transfers are added: no rank sends and receives at once */
    bool counts_only; /* transfers are numbered and not kept: to learn how many a plan has */
    /* Owned; NULL: the plan is whole. A folded plan has the transfers of the first line only. Their
     * classes in the folded network have no flows of other plans. */
    dl_fold *fold;
    bool is_whole; /* it is not to be folded, set before transfers are added */
    void (*make)(struct dl_plan *plan, const void *how); /* adds all transfers anew, if is_whole */
    const void *how;
    double *sent_bytes; /* [domains of the machine] to others, in a run; NULL: not yet any */

    int *waiting; /* [transfers] of this run: how many must still end before it */
    int running;  /* transfers that have not ended */
    dl_plan_alone alone;
    int claim;         /* that this run has; -1 = it is simulated transfer by transfer */
    int64_t since_ns;  /* the run's start */
    int event;         /* its end, while it has a claim */
    int kept, broken;  /* claims so far, of those that are worked out again when they are broken */
    int64_t *start_ns; /* [transfers] of this run, or why it has none; NULL: not noted */
    int *classes;      /* [class_count of another network] + 1: what the transfers' classes are in
                           this one; NULL: the same */
    bool is_apart;     /* set before the first run: always transfer by transfer, for tests */
    dl_event_fn done;
    void *user;
    int index;
} dl_plan;

/* An empty plan. dl_plan_free accepts a zeroed one. */
void dl_plan_init(dl_plan *plan, dl_network *network, const dl_links *links,
                  const dl_hop_costs *costs);
void dl_plan_free(dl_plan *plan);

/* The way that a transfer takes. */
void dl_plan_route(const dl_plan *plan, dl_place from, dl_place to, dl_route *route);

/* Adds a transfer of `bytes`, charged as bytes / bandwidth_frac, that has the latency of its way
 * and the protocol's hop time `hops` times before its bytes move, and `extra_ns` more; returns its
 * number. */
int dl_plan_add(dl_plan *plan, dl_place from, dl_place to, double bytes, int hops, double extra_ns);

/* Adds a transfer of `bytes`, charged as dl_plan_add does, over one link in one direction, and over
 * `both` unless that is -1. */
int dl_plan_add_link(dl_plan *plan, int link, int both, double bytes);

/* Adds a transfer like one that is there, in no order with any. */
int dl_plan_repeat(dl_plan *plan, int transfer);

/* Adds a join. */
int dl_plan_join(dl_plan *plan);

/* Adds a join that takes `delay_ns` >= 0. */
int dl_plan_wait(dl_plan *plan, double delay_ns);

/* Adds a chunk of a pipeline: two transfers, of which the second moves the bytes and is returned.
 * It waits for `before`, the chunk before it on the same edge (-1 = none). The one in front of it
 * is the hop time, without bytes: what the chunk itself needs is to be ordered before that, so that
 * the latency passes while others are still moving. */
int dl_plan_add_chunk(dl_plan *plan, dl_place from, dl_place to, double bytes, int before);

/* `later` starts when `earlier` has ended; -1 for `earlier` says nothing. */
void dl_plan_order(dl_plan *plan, int earlier, int later);

/* Time of one hop between the places: latency of the way and the protocol's hop time. */
double dl_plan_hop_ns(const dl_plan *plan, dl_place from, dl_place to);

/* The most that NCCL's rings hand to the network at a time: ALLREDUCE_SLICESTEPS = 2 of the NCCL_STEPS = 8
 * parts of a buffer of 4 MiB (src/include/collectives.h). */
#define DL_SLICE_BYTES 1048576.0

/* Time that a message of `bytes` keeps its sender busy beside the transfer of its bytes: the costs of the
 * host and, between nodes, of the network for each of its slices. dl_plan_hop_ns includes the cost of
 * one slice. */
double dl_plan_message_ns(const dl_plan *plan, dl_place from, dl_place to, double bytes);

/* The part of the links' rates that messages on the route reach. */
double dl_plan_frac(const dl_plan *plan, const dl_route *route);

/* Rate of the way between the places when nothing else moves, in bytes a second of the
 * collective's. */
double dl_plan_rate(const dl_plan *plan, dl_place from, dl_place to);

/* Works out now what a run takes on links that nobody else uses, which the first run does else:
 * what that needs of memory is free again before others ask for theirs. */
void dl_plan_prepare(dl_plan *plan);

/* Runs the plan, which must have a transfer and not be running, from now on; done(user, index) at
 * its end (NULL: nothing is called). The network needs room for as many flows as transfers can run
 * at once. */
void dl_plan_run(dl_plan *plan, dl_event_fn done, void *user, int index);

#endif
