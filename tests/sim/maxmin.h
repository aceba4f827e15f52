/* Max-min fair rates of flows over shared links, by progressive filling: the plain way, which the
 * network is compared with.
 *
 * All rates grow together, each in proportion to its flow's weight, until a link is full or a flow
 * reaches its cap; the flows concerned keep the rate that they have then, and the others grow on.
 * So no flow can gain without another one losing that had less per weight (Bertsekas & Gallager,
 * Data Networks, section 6.5.2). The solver knows only flows and links.
 *
 * Worked example: link A of capacity 10, link B of 4; flow 0 over A, flow 1 over A and B, flow 2
 * over B; weights 1, no caps. At level 2, B is full: flows 1 and 2 stay at 2. Flow 0 grows on until
 * A is full, at 10 - 2 = 8. With a cap of 3 on flow 0: it stops at 3, and A has 5 unused.
 *
 * Units are the caller's (bytes a second here): capacities, caps and rates share one.
 * What it leaves out: windows, round trips, losses; rates change at once.
 */
#ifndef DL_TESTS_MAXMIN_H
#define DL_TESTS_MAXMIN_H

#include <stdbool.h>

typedef struct dl_maxmin {
    int link_capacity_count, flow_capacity, use_capacity; /* sizes of the arrays below */
    int links, flows, uses;                               /* in use */
    double *capacity;                                     /* [links] > 0 */
    double *weight, *cap;                                 /* [flows] > 0; cap may be INFINITY */
    double *rate;                                         /* [flows] result of dl_maxmin_solve */
    int *first_use;                                       /* [flows + 1] range in use_link */
    int *use_link;                                        /* [uses] links of a flow */
    double *left, *open_weight;                           /* [links] while solving */
    bool *fixed;                                          /* [flows] while solving */
} dl_maxmin;

/* Room for that many links, flows, and uses (sum over flows of the links that each crosses). */
void dl_maxmin_init(dl_maxmin *system, int links, int flows, int uses);
void dl_maxmin_free(dl_maxmin *system);

/* Forgets all flows; links stay. */
void dl_maxmin_clear_flows(dl_maxmin *system);

/* Adds a link and returns its number. */
int dl_maxmin_add_link(dl_maxmin *system, double capacity);

/* Adds a flow over link_count different links (0: only its cap, which must be finite, limits it)
 * and returns its number. */
int dl_maxmin_add_flow(dl_maxmin *system, double weight, double cap, const int *links,
                       int link_count);

/* Sets rate[] of all flows. O(flows (links + uses)) at worst. Does not allocate. */
void dl_maxmin_solve(dl_maxmin *system);

#endif
