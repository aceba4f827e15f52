/* Times of collectives and copies on a machine that dlsim simulates, the assumed values on which
 * they depend, and the times after one change of the machine. */
#ifndef DL_CALIBRATE_LINKS_PROBE_H
#define DL_CALIBRATE_LINKS_PROBE_H

#include "sim/collective/collective.h"

/* A copy; with both_ways also the copy back at the same time. */
typedef struct dl_link_copy {
    dl_place from, to;
    bool both_ways;
} dl_link_copy;

/* An operation that is timed on the machine: a collective, or a copy of `bytes`. */
typedef struct dl_link_probe {
    const dl_collective_config *config; /* borrowed; NULL: a copy */
    dl_link_copy copy;
    double bytes;
} dl_link_probe;

/* Time of the probe on idle links; NaN where the machine cannot do it. */
double dl_link_probe_ns(const dl_links *links, const dl_link_probe *probe);

/* Names, joined by commas, of the machine's assumed values on which the probe's time, time_ns,
 * depends; NULL: none. free() it. Changes and restores the machine. */
char *dl_link_find_assumed(dl_machine *machine, const dl_link_probe *probe, double time_ns);

/* Links of each node that a change slows down. */
typedef enum dl_link_slow { DL_LINK_NO_LINKS, DL_LINK_GPU_LINKS, DL_LINK_NIC_PORTS } dl_link_slow;

/* A change of a machine. */
typedef struct dl_link_change {
    const char *text;
    bool (*apply)(dl_node_kind *node, double rate); /* NULL: links alone */
    dl_link_slow links;
    double slower;      /* factor of these links */
    bool between_nodes; /* matters there only */
    double rate;        /* NaN: it has none */
} dl_link_change;

#define DL_LINK_CHANGES 8
extern const dl_link_change dl_link_changes[DL_LINK_CHANGES];

/* GPUs send and receive `rate` bytes per second together through host memory. */
dl_link_change dl_link_shared_memory(double rate);

/* Time of the probe on the machine `name` of `nodes` nodes with a change; NaN: the change has no
 * effect. */
double dl_link_changed_ns(const char *name, int nodes, const dl_link_change *change,
                          const dl_link_probe *probe);

#endif
