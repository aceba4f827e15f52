/* Internals of the advice: the settings to search and their points (advise_space.c), and the search
 * (advise.c). */
#ifndef DL_SIM_ADVISE_INTERNAL_H
#define DL_SIM_ADVISE_INTERNAL_H

#include "common/ini.h"
#include "sim/report/advise.h"

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
    dl_ini base;                 /* the study's text */
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

/* Number of the point with these settings; it is new if the number equals the previous
 * point_count. */
size_t dl_advice_add_point(dl_advice_search *search, const size_t *at);

void dl_advised_free(dl_advised *point);

#endif
