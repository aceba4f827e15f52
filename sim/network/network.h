/* Flows of bytes over shared links, in simulated time.
 *
 * A flow waits for its delay (the latency of its route), then moves its bytes at its max-min fair
 * rate: the rates of all flows grow together until a link is full, which fixes the rates of the
 * flows over it, while the others keep growing. No flow's rate can increase without decreasing the
 * rate of a flow that is not faster (Bertsekas & Gallager, Data Networks, section 6.5.2). Rates
 * change only when flows start and end. Windows, round trips and losses are not modelled.
 *
 * Flows over equal links belong to one class, and all flows of a class have the same rate. So a
 * class counts the bytes that each of its flows has moved since the class was last empty
 * ("served"); a flow that starts at served = s with b bytes ends at served = s + b, whatever the
 * rates are meanwhile, and a heap keyed by that mark finds the next flow to end:
 *
 *     served ----|-----------|-------|------>      the cost of an event does not depend on the
 *                now       mark 2  mark 1          number of flows of a class
 *
 * Likewise, classes that have the same shared links form a bundle, even if their unshared links
 * differ: while no unshared link is the bottleneck, all their flows have the same rate. n workers
 * with separate links into one server are one bundle.
 *
 *     worker 0 ---own link---.
 *     worker 1 ---own link----+---server's link---      one bundle with one rate; a worker whose
 *     worker 2 ---own link---'                          own link is too slow is outside of it
 *
 * A bundle counts the bytes that each of its flows has moved; a class keeps the difference from its
 * count, and a heap of classes keyed by their first mark finds the next flow to end. While rates
 * are computed, a class whose unshared links would be full first (its cap) leaves the bundle and is
 * solved separately; when a shared link limits it again, it returns. The rates are the same as if
 * each class were solved separately.
 *
 * A change affects only the links that flows connect to it; each such component has one pending
 * event, for its first flow to end. All changes at the same time are solved together. An event
 * costs O(links and bundles of the component * different rates in it), and O(log classes) for the
 * heap.
 *
 * An uncontended network gives each flow the rate of its slowest link, regardless of other flows,
 * to measure the effect of sharing: links may then move more than their capacity.
 *
 * Bytes and rates are doubles (bytes, bytes per second), times int64 ns; the end of a flow is
 * rounded up to whole ns. */
#ifndef DL_SIM_NETWORK_H
#define DL_SIM_NETWORK_H

#include "sim/engine.h"
#include "sim/network/links.h"

/* A link on the route of a class. In the link's list, the use of a bundle's first class represents
 * the bundle, unless no other class uses the link. */
typedef struct dl_use {
    int link, class;
    int times;      /* number of times that each byte crosses the link */
    int next, prev; /* uses of the same link by other bundles, -1 = end */
    int bundle;     /* bundle that this use represents in the link's list; -1: not listed */
} dl_use;

/* Node of a pairing heap of flows or of classes: smallest key first, ties by sequence. */
typedef struct dl_heap_node {
    double key;
    uint64_t sequence;
    int child, sibling; /* first child and next sibling; -1 = none */
    int before;         /* previous sibling, or the parent of a first child */
} dl_heap_node;

typedef struct dl_flow_class {
    dl_heap_node
        node; /* in the bundle's heap; the key is the mark of the class's first flow in the bundle's
               * count */
    int first_use, use_count;
    int flows;      /* number of flows that are moving bytes */
    int head;       /* root of the heap of flows by mark, -1 = empty */
    double base;    /* served bytes of the bundle minus those of the class */
    int bundle;     /* number of the class's bundle; -1: the class is not active */
    int next, prev; /* neighbours in the list of the bundle's classes, -1 = end */
    int crowd;      /* index in `crowds`; -1: the class is not a crowd */
} dl_flow_class;

/* A class whose flows differ only in one unshared link each. A single link represents all of these:
 * its capacity is that of each. The flows, all of equal size, end in the order of their start, so a
 * list replaces the heap. A flow's key is the number of bytes served when it started. */
typedef struct dl_flow_crowd {
    int own;  /* number of the unshared link */
    int last; /* last flow of the list */
} dl_flow_crowd;

/* Active classes with the same shared links; all their flows have the same rate. */
typedef struct dl_flow_bundle {
    int first, members; /* first class, and number of classes */
    int flows;          /* number of flows of all classes */
    int top;            /* root of the heap of classes by key, -1 = empty */
    double served;      /* bytes moved by each flow */
    double rate;        /* rate of each flow */
    double cap;       /* upper limit of rate; never above the limit of any class's unshared links */
    int64_t since_ns; /* time at which `served` was valid */
    int event;        /* id of the component's pending event; -1: another bundle of the component
                       * holds it */
    int next;         /* next bundle in the chain of equal hashes, or in the free list */
    uint64_t hash;    /* hash of the shared links */
    bool hashed;      /* other classes may join; false: the bundle remains a single class */
} dl_flow_bundle;

typedef struct dl_flow {
    dl_heap_node node; /* in the class's heap, by mark; flows with equal marks end in the order of
                        * starting. `sibling` also links the lists of free and of ended flows */
    double bytes;
    dl_event_fn done;
    void *user;
    int class, index;
} dl_flow;

/* Called before a flow of another user moves bytes over a claimed link. It must release the links
 * that it claimed, and may resume its flows on them. */
typedef void (*dl_claim_fn)(void *user);

/* Called when a link becomes idle at end_ns, after moving `bytes` since start_ns. */
typedef void (*dl_link_fn)(void *user, int link, double bytes, int64_t start_ns, int64_t end_ns);

typedef struct dl_network_claim {
    dl_claim_fn broken;
    void *user;
    int next; /* next free claim */
} dl_network_claim;

typedef struct dl_network {
    dl_engine *engine;
    int link_count, link_room;
    double *capacity; /* [links] bytes per second */
    double *bytes;    /* [links] bytes of ended flows that have crossed the link */
    dl_link_fn idle;  /* called for each link that becomes idle; NULL: none */
    void *idle_user;
    int watched;          /* number of links that `idle` is called for, the first ones */
    double *bytes_before; /* [links] `bytes` when the link was idle last; NULL without `idle` */
    int64_t *busy_ns;     /* [links] time at which it stopped being idle; NULL without `idle` */
    int *first_use;       /* [links] first use in the list of uses by bundles */
    int *users;           /* [links] number of active classes on the link */
    int *user;            /* [links] XOR of the numbers of these classes; with one class, its
                          * number */
    double *left;        /* [links] capacity minus that used by bundles with final rates; used while
                          * solving */
    int64_t *open;       /* [links] crossings by flows of bundles without final rates */
    int64_t *link_stamp; /* [links] number of the search that found the link last */
    int *number;         /* [links] scratch space for numbering links; zero when not in use */
    int *dirty;          /* [links] links whose flows have changed */
    bool *is_dirty;      /* [links] whether the link is in `dirty` */
    int *part_links;     /* [links] links of the current component */
    int dirty_count, part_link_count;

    dl_flow_class *classes;
    dl_use *uses;
    int *table; /* [table_size] hash table of classes by their links, -1 = free */
    int class_count, class_room, use_count, use_room, table_size;

    dl_flow_bundle *bundles; /* [class_room] the first bundle_used have been used */
    int *chains;             /* [class_room] first bundle by hash, -1 = none */
    int *part_bundles;       /* [class_room] bundles of the current component */
    int64_t *bundle_stamp;   /* [class_room] number of the search that found the bundle last; not
                              * a member of the bundles, as a search reads little else of most */
    bool *is_fixed;          /* [class_room] the bundle's rate is final; used while solving */
    int *emptied;            /* [class_room] classes whose last flow has ended */
    int bundle_used, free_bundle, part_bundle_count, emptied_count;
    dl_flow_crowd *crowds; /* [crowd_count] */
    int crowd_count;

    dl_flow *flows;    /* [flow_room] flows, of which the first flow_used have been used; the others
                        * take no memory */
    void *flows_block; /* allocation that holds `flows`, which are aligned to cache lines */
    int flow_room, flow_used, free_flow, active_flows;
    int number_of_flows; /* number of the first flow among the engine's states (dl_engine_state);
                          * lower numbers are users' indices; 0: the engine has no states */
    uint64_t next_sequence;
    int ended, ended_last; /* list of flows whose done is to be called */
    int64_t stamp;
    bool settling_is_due;
    bool is_uncontended; /* set before the first flow: flows do not share links */

    int *claim_of; /* [claimed_links] claim on the link, -1 = none; links added later have none */
    int claimed_links;
    dl_network_claim *claims; /* [claim_room] */
    size_t claim_room;
    int free_claim, claim_count; /* claim_count: number of claims in force */

    int timed;                        /* number of exchanges in progress that load no link but take
                                       * a given, measured time */
    int64_t timed_since_ns, timed_ns; /* start of the current period with such exchanges; total of
                                       * past periods */
} dl_network;

/* Initialises a network without links, for up to `flows` >= 1 concurrent flows, including waiting
 * ones. It borrows the engine, which needs room for 2 * flows + 1 events of the network. */
void dl_network_init(dl_network *network, dl_engine *engine, int flows);
void dl_network_free(dl_network *network); /* accepts a zeroed network */

/* Makes room for at least `flows` concurrent flows. */
void dl_network_reserve(dl_network *network, int flows);

/* Adds a link of `capacity` > 0 bytes per second and returns its number. */
int dl_network_add_link(dl_network *network, double capacity);

/* Adds all links of a machine, with the same numbers. */
void dl_network_add_links(dl_network *network, const dl_links *links);

/* Calls idle(user, ...) for each of the network's present links that becomes idle. Once, before any
 * flow. dl_network_watch_end calls it for those that are not idle at the end of the run; the bytes
 * of flows that have not ended are not counted. */
void dl_network_watch(dl_network *network, dl_link_fn idle, void *user);
void dl_network_watch_end(dl_network *network);

/* Returns the class of flows over links[count] (each once; may be empty), which each byte crosses
 * times[i] >= 1 times. The same links and times in the same order give the same class. */
int dl_network_class(dl_network *network, const int *links, const unsigned char *times, int count);
int dl_network_route_class(dl_network *network, const dl_route *route);

/* Starts a flow of `bytes` >= 0 after `delay_ns` >= 0. done(user, index) is called at its end
 * (never before this function has returned), and may start flows. Does not allocate. */
void dl_network_start(dl_network *network, int class, double bytes, int64_t delay_ns,
                      dl_event_fn done, void *user, int index);

/* Claims links[count] (no duplicates) for a user that computes the ends of its transfers over them
 * itself. Returns the claim; -1 if another flow is moving bytes over one of them, or if the network
 * is uncontended. Breaks another user's claim on any of the links. Takes no simulated time. */
int dl_network_claim_links(dl_network *network, const int *links, int count, dl_claim_fn broken,
                           void *user);

/* Releases a claim; links[count] must be the same as when it was made. */
void dl_network_release_links(dl_network *network, int claim, const int *links, int count);

/* Record the start and the end of an exchange that takes a given time and loads no link. */
void dl_network_begin_timed(dl_network *network);
void dl_network_end_timed(dl_network *network);

/* Time in ns during which at least one exchange begun by dl_network_begin_timed was in progress. */
int64_t dl_network_timed_ns(const dl_network *network);

/* Rate of a flow of the class that shares no link with others, in bytes per second; the class must
 * have links. */
double dl_network_alone_rate(const dl_network *network, const dl_flow_class *c);

/* Duration in ns of a flow of the class while nothing else uses its links. */
int64_t dl_network_alone_ns(const dl_network *network, int class, double bytes);

/* Starts a flow that has already moved bytes for `moved_ns` >= 0, at most dl_network_alone_ns, at
 * the full rate of its links; the class must have no other flow at this time. */
void dl_network_resume(dl_network *network, int class, double bytes, int64_t moved_ns,
                       dl_event_fn done, void *user, int index);

/* Bytes that a flow still has to move. The flow must be moving bytes, and not belong to a crowd. */
double dl_network_left(const dl_network *network, int flow);

/* Starts a flow, without delay, that has only its last `left` bytes to move, 0 <= left <= bytes. */
void dl_network_go_on(dl_network *network, int class, double bytes, double left, dl_event_fn done,
                      void *user, int index);

/* Returns the class of flows over links[count] and, at position own_at among them, an unshared link
 * per flow. Link `own` represents all of these: no other class may use it, and its bytes are not
 * counted. All concurrent flows must have the same size. */
int dl_network_crowd(dl_network *network, const int *links, const unsigned char *times, int count,
                     int own, int own_at);

#endif
