/* Collectives measured as a whole: their time by size, from a cost file.
 *
 *   [collective allreduce 8]        ; kind (dl_collective_kind_names) and ranks
 *   nodes = 1                       ; number of nodes of these ranks; may be left out: any
 *   bytes_0 = 35000 +- 100, n = 19, fitted         ; ns; sizes as in collective.h, ascending
 *   bytes_524288 = 60300 +- 900, n = 19, fitted    ; linear between sizes and beyond the last two,
 *   bytes_8589934592 = 6.4e7, n = 7, fitted        ; constant below the first
 *
 * Such a time includes the library's choice of algorithm on the measured machine, so it replaces
 * the modelled transfers if a scenario leaves the algorithm open (`auto`) and the numbers of ranks
 * and nodes match. It is the time of the collective alone: the collective and other transfers do
 * not slow each other down, and the links' loads do not include it.
 *
 * Processes on cores have five more kinds:
 *
 *   [allreduce_pair 4]              ; ranks
 *   bytes_65536 = 640000 +- 9000, n = 9, fitted
 *
 * is two concurrent all-reduces with that many bytes in total; [allreduce_beside RANKS] an
 * all-reduce while all ranks compute; [allreduce_late RANKS] one whose last rank arrives long after
 * the others, timed from that arrival; [roundtrip CALLERS] a call of a parameter server that sends
 * and returns that many bytes, without the server's update; [pushpull RANKS] a push to a
 * synchronous server, which updates when all ranks have pushed, and the pull after that, including
 * the update. All times of processes are the time that an exchange adds to a step of that many
 * workers, which compute concurrently between exchanges: they include the compute time lost to
 * communication threads, and waits for a core. The system's placement of these threads differs from
 * one start of the processes to the next and then persists; with
 *
 *   starts = 0.93, 1.04, 1.02       ; in the order of the starts, the same for all sections
 *
 * drawn costs (dl_costs_draw) use the factor of another start. */
#ifndef DL_SIM_COLLECTIVE_COST_H
#define DL_SIM_COLLECTIVE_COST_H

#include <stddef.h>

#include "sim/value.h"

#define DL_ROUNDTRIP (-1)
#define DL_ALLREDUCE_PAIR (-2)
#define DL_ALLREDUCE_BESIDE (-3)
#define DL_ALLREDUCE_LATE (-4)
#define DL_PUSHPULL (-5)

#define DL_COLLECTIVE_TIME_MAX_NS 3.6e12 /* one hour */

typedef struct dl_collective_time {
    double bytes;
    dl_value time_ns; /* >= 0 */
} dl_collective_time;

typedef struct dl_collective_cost {
    int kind;                  /* dl_collective_kind, or one of the kinds of processes below 0 */
    int ranks;                 /* number of ranks, >= 2; of callers (DL_ROUNDTRIP), >= 1 */
    int nodes;                 /* 0 = any number of nodes */
    dl_collective_time *times; /* [count >= 2] ascending by bytes */
    size_t count;
    float *starts; /* [start_count] factors > 0 on all times, one per start of the benchmark */
    size_t start_count;
    double factor; /* factor of the drawn start, > 0; 0: none drawn, factor 1 */
} dl_collective_cost;

/* The entry of costs[count] for that many ranks on that many nodes, borrowed; NULL if there is
 * none. */
const dl_collective_cost *dl_collective_cost_find(const dl_collective_cost *costs, size_t count,
                                                  int kind, int ranks, int nodes);

/* Time in ns for a size, >= 0, including the factor. */
double dl_collective_cost_ns(const dl_collective_cost *cost, double bytes);

#endif
