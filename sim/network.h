/* Flows of bytes over shared links, in simulated time.
 *
 * A flow waits for its delay (the latency of its way), then moves its bytes at its max-min fair
 * share of the links that it crosses (sim/maxmin.h says what that is; equal weights). Shares change
 * only when flows begin and end. What it leaves out: windows, round trips, losses.
 *
 * Flows over equal links belong to one class, and all flows of a class have the same rate. So a
 * class counts the bytes that one flow has got since it was last empty ("served"); a flow that
 * begins at served = s with b bytes ends at served = s + b, whatever the rates are meanwhile, and a
 * heap on that mark says which flow is next:
 *
 *     served ----|-----------|-------|------>      the cost of an event does not depend on the
 *                now       mark 2  mark 1          number of flows of a class
 *
 * A change is carried no further than the links that are connected to it by flows; each such
 * component has one pending event, for the first flow of it to end. All changes of one instant are
 * solved together. An event costs O(links and classes of the component * different rates in it).
 *
 * Bytes and rates are doubles (bytes, bytes a second), times int64 ns; the end of a flow is rounded
 * up to whole ns.
 */
#ifndef DL_SIM_NETWORK_H
#define DL_SIM_NETWORK_H

#include "sim/engine.h"
#include "sim/links.h"

/* One link on the way of a class; a member of the list of active classes on that link. */
typedef struct dl_use {
    int link, class;
    int times;      /* that a byte crosses it */
    int next, prev; /* uses of the same link by active classes, -1 = end */
} dl_use;

typedef struct dl_flow_class {
    int first_use, use_count;
    int flows;        /* that move bytes now */
    int head;         /* heap of flows by mark, -1 = empty */
    double served;    /* bytes */
    double rate;      /* of each flow */
    double cap;       /* of rate, by the links that no other class uses now */
    int64_t since_ns; /* served is of this time */
    int event;        /* pending event of the component, -1 = another class has it */
    int64_t stamp;    /* of the search that saw it last */
    bool fixed;       /* while solving */
} dl_flow_class;

typedef struct dl_flow {
    int class;
    double bytes, mark;
    uint64_t sequence; /* equal marks end in the order of beginning */
    int child, next;   /* in the heap; next also in the lists of free and of ended flows */
    dl_event_fn done;
    void *user;
    int index;
} dl_flow;

typedef struct dl_network {
    dl_engine *engine;
    int link_count;
    double *capacity;    /* [links] */
    double *bytes;       /* [links] that have crossed, of ended flows */
    int *first_use;      /* [links] list of active uses */
    double *left;        /* [links] capacity without the fixed classes, while solving */
    int64_t *open;       /* [links] flow crossings of classes that are not fixed */
    int64_t *link_stamp; /* [links] of the search that saw it last */
    int *dirty;          /* [links] whose flows have changed */
    bool *is_dirty;      /* [links] */
    int *part_links;     /* [links] of the component at hand */
    int dirty_count, part_link_count;

    dl_flow_class *classes;
    dl_use *uses;
    int *part_classes; /* [class_room] */
    int *table;        /* [table_size] hash of classes by their links, -1 = free */
    int class_count, class_room, use_count, use_room, part_class_count, table_size;

    dl_flow *flows;
    int flow_room, free_flow, active_flows;
    uint64_t next_sequence;
    int ended, ended_last; /* flows whose done is to be called */
    int64_t stamp;
    bool settling_is_due;
} dl_network;

/* A network without links for at most `flows` >= 1 flows at a time, waiting ones included. The
 * engine, which is borrowed, needs room for 2 * flows + 1 events of it. */
void dl_network_init(dl_network *network, dl_engine *engine, int flows);
void dl_network_free(dl_network *network); /* a zeroed network is fine */

/* Makes room for at least `flows` flows at a time. */
void dl_network_reserve(dl_network *network, int flows);

/* Adds a link of `capacity` > 0 and returns its number. All links come before all classes. */
int dl_network_add_link(dl_network *network, double capacity);

/* Adds all links of a machine, with the same numbers. */
void dl_network_add_links(dl_network *network, const dl_links *links);

/* The class of flows over links[count] (each once; may be empty), which each byte crosses times[i]
 * >= 1 times. The same links in the same order give the same class. */
int dl_network_class(dl_network *network, const int *links, const unsigned char *times, int count);
int dl_network_route_class(dl_network *network, const dl_route *route);

/* Starts a flow of `bytes` >= 0 in `delay_ns` >= 0; done(user, index) is called when it ends (never
 * before this function has returned), and may start flows. Does not allocate. */
void dl_network_start(dl_network *network, int class, double bytes, int64_t delay_ns,
                      dl_event_fn done, void *user, int index);

/* Bytes that have crossed a link, by flows that have ended. */
double dl_network_link_bytes(const dl_network *network, int link);

/* The rate of one flow of the class now; 0 if it has none. For tests and reports. */
double dl_network_rate(const dl_network *network, int class);

#endif
