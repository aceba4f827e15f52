/* Times of collectives and copies on a machine that dlsim simulates, the assumed values that affect
 * these times, and the times after one change of the machine. */
#ifndef DL_CALIBRATE_LINKS_PROBE_H
#define DL_CALIBRATE_LINKS_PROBE_H

#include "sim/collective/collective.h"

/* A copy; with both_ways, also a simultaneous copy back. */
typedef struct dl_link_copy {
    dl_place from, to;
    bool both_ways;
} dl_link_copy;

/* A timed operation: a collective, or a copy of `bytes`. */
typedef struct dl_link_probe {
    const dl_collective_config *config; /* borrowed; NULL for a copy */
    dl_link_copy copy;
    double bytes;
} dl_link_probe;

/* Returns the time of the probe on idle links in ns; NaN if the machine does not support it. */
double dl_link_probe_ns(const dl_links *links, const dl_link_probe *probe);

/* Returns the comma-separated names of the machine's assumed values that affect the probe's time,
 * whose current value is time_ns; NULL: none. The caller frees the text. Changes the machine
 * temporarily and restores it. */
char *dl_link_find_assumed(dl_machine *machine, const dl_link_probe *probe, double time_ns);

/* Links of each node that a change slows down. */
typedef enum dl_link_slow { DL_LINK_NO_LINKS, DL_LINK_GPU_LINKS, DL_LINK_NIC_PORTS } dl_link_slow;

/* A change of a machine. */
typedef struct dl_link_change {
    const char *text;
    bool (*apply)(dl_node_kind *node, double rate); /* NULL: only links change */
    dl_link_slow links;
    double slower;      /* divisor of these links' rates */
    bool between_nodes; /* relevant only between nodes */
    double rate;        /* bytes per second; NaN: the change has no rate */
} dl_link_change;

#define DL_LINK_CHANGES 8
extern const dl_link_change dl_link_changes[DL_LINK_CHANGES];

/* Returns the change to `rate` bytes per second that a GPU sends and receives together through host
 * memory. */
dl_link_change dl_link_shared_memory(double rate);

/* Returns the change to ports of `rate` bytes per second each way. */
dl_link_change dl_link_ports(double rate);

/* Returns the time of the probe, in ns, on the machine `name` of `nodes` nodes after the change;
 * NaN if the change has no effect. */
double dl_link_changed_ns(const char *name, int nodes, const dl_link_change *change,
                          const dl_link_probe *probe);

#endif
