/* Internals of the advice: the settings to search and their points (advise_space.c), the search
 * (advise.c), and the usual choice (advise_usual.c). */
#ifndef DL_SIM_ADVISE_INTERNAL_H
#define DL_SIM_ADVISE_INTERNAL_H

#include "common/ini.h"
#include "sim/report/advise.h"

#define DL_ADVICE_COARSE_STEPS 40 /* of a run of the search */

/* Settings that every study searches; the settings that the scenario lists follow. */
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
    FIXED
};

typedef struct dl_advice_search {
    dl_advice *advice;
    const dl_study *study;
    const dl_scenario *scenario; /* scenario of the first variant */
    dl_ini given;                /* the study's text */
    char *text;                  /* the same with the mode by its own name, and */
    dl_ini base;                 /* its entries */
    size_t searched;             /* number of points */
    int64_t events;
} dl_advice_search;

/* Sets the limits that the config leaves open from the scenario, and makes the axes. */
void dl_advice_make_space(dl_advice_search *search);

/* Number of the value in the axis; adds it if it is absent. */
size_t dl_advice_add_value(dl_advice_axis *axis, const char *value);
size_t dl_advice_add_number(dl_advice_axis *axis, int64_t value);

/* `at`: a value of each axis, as in dl_advised. dl_mode_none where the mode does not apply. */
const dl_mode *dl_advice_mode(const dl_advice *advice, const size_t *at);

/* Samples of all workers together, 0 if they cannot be divided among the workers. */
int64_t dl_advice_batch(const dl_advice_search *search, const size_t *at);

/* The number of the point with these settings; equal to the previous point_count if the point is
 * new. */
size_t dl_advice_add_point(dl_advice_search *search, const size_t *at);

/* Reads the point's scenario and costs as a variant. On failure returns false and sets the point's
 * out and why. */
bool dl_advice_read_point(const dl_advice_search *search, dl_advised *point, dl_variant *variant);

/* The goal's value at a throughput; the point has been simulated. */
double dl_advice_score(const dl_advice *advice, const dl_advised *point, double per_s);

/* Whether two points agree in the keys that the scenario itself lists, such as the machine. */
bool dl_advice_same_rest(const dl_advice *advice, size_t a, size_t b);

/* Whether a point that ran is a usual choice: all-reduce, or one GPU alone. */
bool dl_advice_is_usual(const dl_advised *point);

/* Whether a server on GPUs or hosts takes part in the point's exchange. */
bool dl_advice_is_served(const dl_advice *advice, const dl_advised *point);

/* Finds the points that differ from point `number` only by all-reduce as the mode and in their
 * buckets; simulates those that are new. The caller frees *found, also after an error. Invalidates
 * pointers to points. */
dl_status dl_advice_allreduce(dl_advice_search *search, size_t number, size_t **found,
                              size_t *count, dl_error *err) DL_MUST_CHECK;

/* Puts the best usual point, all-reduce or one GPU alone, first among advice->best where none of
 * those ahead of it can be told apart from it (advise_usual.c, dl_advice). */
dl_status dl_advice_prefer_usual(dl_advice_search *search, dl_error *err) DL_MUST_CHECK;

void dl_advised_free(dl_advised *point);

#endif
