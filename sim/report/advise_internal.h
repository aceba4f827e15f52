/* Parts of an advice: the settings that are searched and the points that they make
 * (advise_space.c), and the search among them (advise.c). */
#ifndef DL_SIM_ADVISE_INTERNAL_H
#define DL_SIM_ADVISE_INTERNAL_H

#include "common/ini.h"
#include "sim/report/advise.h"

/* The settings that are searched in every study; then come those that the scenario lists. */
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
    const dl_scenario *scenario; /* of the first variant */
    dl_ini base;                 /* the study's text */
    size_t searched;             /* points */
    int64_t events;
} dl_advice_search;

/* The limits that the config leaves open become the scenario's, and the axes are made. */
void dl_advice_make_space(dl_advice_search *search);

/* The number of the value in the axis, where it is added if it is not there. */
size_t dl_advice_add_value(dl_advice_axis *axis, const char *value);
size_t dl_advice_add_number(dl_advice_axis *axis, int64_t value);

/* `at`: a value of each axis, as in dl_advised. dl_mode_none where the mode means nothing. */
const dl_mode *dl_advice_mode(const dl_advice *advice, const size_t *at);

/* Samples of all workers together, 0 if they cannot share any. */
int64_t dl_advice_batch(const dl_advice_search *search, const size_t *at);

/* The number of the point with these settings, which is new where it is point_count as it was
 * before. */
size_t dl_advice_add_point(dl_advice_search *search, const size_t *at);

void dl_advised_free(dl_advised *point);

#endif
