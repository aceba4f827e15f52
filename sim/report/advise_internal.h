/* Internals of the advice: the settings to search and their points (advise_space.c), their
 * simulation (advise_simulate.c), the search (advise.c), and the usual choice (advise_usual.c). */
#ifndef DL_SIM_ADVISE_INTERNAL_H
#define DL_SIM_ADVISE_INTERNAL_H

#include "common/ini.h"
#include "sim/report/advise.h"

#define DL_ADVICE_COARSE_STEPS 40 /* steps per run of the search */

/* Axes that every study has; axes for other keys follow. */
enum {
    WORKERS,
    MODE,
    BATCH,
    ACCUMULATE,
    INTERVAL,
    N,
    BOUND,
    K,
    LAG,
    WHERE,
    SHARDS,
    OVERLAP,
    BUCKET,
    COMPRESS,
    SHARDED,
    RECOMPUTE,
    FIXED
};

typedef struct dl_advice_search {
    dl_advice *advice;
    const dl_study *study;
    const dl_scenario *scenario; /* scenario of the first variant */
    dl_ini given;                /* the study's text */
    char *text;                  /* the study's text with the mode under its own name */
    dl_ini base;                 /* entries of `text` */
    size_t searched;             /* number of points simulated so far, including final
                                  * simulations */
    int64_t events;
} dl_advice_search;

/* Sets limits that the config leaves open from the scenario, and creates the axes. */
void dl_advice_make_space(dl_advice_search *search);

/* Returns the index of the value on the axis; adds the value if it is absent. */
size_t dl_advice_add_value(dl_advice_axis *axis, const char *value);
size_t dl_advice_add_number(dl_advice_axis *axis, int64_t value);

/* Adds the kinds of recomputation that save memory to their axis, the cheapest first. Returns false
 * if none does, or if the scenario chooses one. */
bool dl_advice_add_recomputed(const dl_advice_search *search);

/* Mode of the point with the value indices `at` (dl_advised.at). Returns dl_mode_none if no mode
 * applies. */
const dl_mode *dl_advice_mode(const dl_advice *advice, const size_t *at);

/* Batch of all workers together, rounded down to a multiple of all workers' micro-batches (of the
 * samples in them, if the scenario gives their size); 0 if it is smaller than that. */
int64_t dl_advice_batch(const dl_advice_search *search, const size_t *at);

/* Returns the index of the point with these settings. If the point is new, the index equals the
 * previous point_count. */
size_t dl_advice_add_point(dl_advice_search *search, const size_t *at);

/* Reads the point's scenario and costs as a variant. On failure returns false and sets the point's
 * out and why. */
bool dl_advice_read_point(const dl_advice_search *search, dl_advised *point, dl_variant *variant);

/* Value of the goal at throughput `per_s`. The point must have been simulated. */
double dl_advice_score(const dl_advice *advice, const dl_advised *point, double per_s);

/* Why the point, whose row and prices are known, is not advised. */
dl_out dl_advice_excluded(const dl_advice *advice, const dl_advised *point);

/* Simulates points[count] in one sweep, in full if `final`, otherwise for a few steps without drawn
 * costs, and judges each by the goal and the limits. */
dl_status dl_advice_simulate(dl_advice_search *search, const size_t *points, size_t count,
                             bool final, dl_error *err) DL_MUST_CHECK;

/* Whether two points agree on all axes from FIXED on: the keys that only the scenario varies, such
 * as the machine. */
bool dl_advice_same_rest(const dl_advice *advice, size_t a, size_t b);

/* Whether a point that ran is a usual choice: all-reduce or one GPU alone. */
bool dl_advice_is_usual(const dl_advised *point);

/* Whether a server on GPUs or hosts takes part in the point's exchange. */
bool dl_advice_is_served(const dl_advice *advice, const dl_advised *point);

/* Moves the best usual point, all-reduce or one GPU alone, to the front of advice->best unless a
 * point ahead of it leads with certainty (advise_usual.c, dl_advice). */
dl_status dl_advice_prefer_usual(dl_advice_search *search, dl_error *err) DL_MUST_CHECK;

void dl_advised_free(dl_advised *point);

#endif
