#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/names.h"
#include "common/sort.h"
#include "common/units.h"
#include "sim/fits.h"
#include "sim/report/advise_internal.h"
#include "sim/scenario/command.h"
#include "sim/scenario/keys.h"
#include "sim/scenario/machine_catalogue.h"

#define WORKERS_DENSE 16 /* every number up to this one is tried */
#define NOTHING SIZE_MAX /* index on an axis that does not apply to the point */
#define SHARDED_FRAC 0.1 /* fraction of the memory; below it sharding saves little */
#define FILL "fill"      /* batch per worker: the largest batch within the limit */

/* --- axes ------------------------------------------------------------------------------------- */

static dl_advice_axis *add_axis(dl_advice *advice, const char *section, const char *key)
{
    DL_APPEND(advice->axes, advice->axis_count, "settings") =
        (dl_advice_axis){.section = dl_strdup(section), .key = dl_strdup(key)};
    return &advice->axes[advice->axis_count - 1];
}

size_t dl_advice_add_value(dl_advice_axis *axis, const char *value)
{
    const int found = dl_names_find(value, (const char *const *)axis->values, axis->count);
    if (found >= 0) return (size_t)found;
    DL_APPEND(axis->values, axis->count, "values") = dl_strdup(value);
    return axis->count - 1;
}

size_t dl_advice_add_number(dl_advice_axis *axis, int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    return dl_advice_add_value(axis, text);
}

DL_ORDER_OF_POINTERS(compare_numbers, char, DL_COMPARE(atoll(a), atoll(b)));

static void sort_numbers(dl_advice_axis *axis)
{
    qsort(axis->values, axis->count, sizeof *axis->values, compare_numbers);
}

/* Adds the scenario's values of the key, the first as the axis' start; if there are none, adds
 * `fallback` unless that is NULL. */
static void add_given(const dl_advice_search *s, dl_advice_axis *axis, const char *fallback)
{
    const dl_swept_key *list = dl_study_swept(s->study, axis->section, axis->key);
    const dl_ini_entry *entry = dl_ini_find(&s->base, axis->section, axis->key);
    if (list != NULL) {
        axis->start = dl_advice_add_value(axis, list->values[0]);
        for (size_t i = 1; i < list->count; i++)
            dl_advice_add_value(axis, list->values[i]);
    } else if (fallback != NULL || entry != NULL) {
        axis->start = dl_advice_add_value(axis, entry != NULL ? entry->value : fallback);
    }
}

/* Adds the scenario's values of an option of its points; if none of its modes takes the option,
 * adds `fallback`. */
static void add_option(const dl_advice_search *s, dl_advice_axis *axis, int option,
                       const char *fallback)
{
    for (size_t v = 0; v < s->study->variant_count; v++) {
        const dl_scenario *scenario = &s->study->variants[v].scenario;
        for (size_t p = 0; p < scenario->point_count; p++) {
            const dl_point *point = &scenario->points[p];
            char number[DL_DOUBLE_TEXT_BYTES];
            if (!dl_mode_takes(point->mode, option) || !isfinite(point->option[option])) continue;
            dl_advice_add_value(axis, dl_format_double(number, point->option[option]));
        }
    }
    if (axis->count == 0) dl_advice_add_value(axis, fallback);
}

/* Adds 1 to 16, then 24, 32, 48, 64, ..., and the scenario's largest number. */
static void add_workers(const dl_advice_search *s, dl_advice_axis *axis)
{
    int most = 1;
    for (size_t v = 0; v < s->study->variant_count; v++) {
        const dl_scenario *scenario = &s->study->variants[v].scenario;
        for (size_t p = 0; p < scenario->point_count; p++)
            if (scenario->points[p].workers > most) most = scenario->points[p].workers;
    }
    for (int n = 1; n <= most && n <= WORKERS_DENSE; n++)
        dl_advice_add_number(axis, n);
    for (int n = WORKERS_DENSE; n < most; n *= 2) {
        if (n / 2 * 3 < most && n > WORKERS_DENSE) dl_advice_add_number(axis, n / 2 * 3);
        if (n > WORKERS_DENSE) dl_advice_add_number(axis, n);
        if (n == WORKERS_DENSE && 24 < most) dl_advice_add_number(axis, 24);
    }
    dl_advice_add_number(axis, most);
    sort_numbers(axis);
}

static bool is_stale(const dl_point *point)
{
    return point->mode->staleness == DL_MODE_STALENESS_SOME || point->option[DL_SYNC_LAG] > 0;
}

/* Sets limits that the config leaves open from the scenario. */
static void set_limits(dl_advice_search *s)
{
    dl_advice_config *config = &s->advice->config;
    int64_t batch = 0, interval = 1;
    bool stale = false;
    for (size_t v = 0; v < s->study->variant_count; v++) {
        const dl_scenario *scenario = &s->study->variants[v].scenario;
        for (size_t p = 0; p < scenario->point_count; p++) {
            const dl_point *point = &scenario->points[p];
            if (point->batch > batch) batch = point->batch;
            stale |= is_stale(point);
            if (dl_mode_takes(point->mode, DL_SYNC_INTERVAL) &&
                point->option[DL_SYNC_INTERVAL] > (double)interval) {
                interval = (int64_t)point->option[DL_SYNC_INTERVAL];
            }
        }
    }
    if (config->max_batch == 0) config->max_batch = batch;
    if (config->max_interval == 0) config->max_interval = interval;
    if (isnan(config->max_staleness)) config->max_staleness = stale ? (double)INFINITY : 0;
}

/* Adds the scenario's modes, then those that the limits allow. */
static void add_modes(const dl_advice_search *s, dl_advice_axis *axis)
{
    const dl_advice_config *config = &s->advice->config;
    for (size_t v = 0; v < s->study->variant_count; v++) {
        const dl_scenario *scenario = &s->study->variants[v].scenario;
        for (size_t p = 0; p < scenario->point_count; p++) {
            const dl_mode *mode = scenario->points[p].mode;
            if (mode->exchange != DL_EXCHANGES_NOTHING) dl_advice_add_value(axis, mode->name);
        }
    }
    dl_advice_add_value(axis, "allreduce");
    dl_advice_add_value(axis, "ps");
    dl_advice_add_value(axis, "average");
    if (config->max_staleness > 0) dl_advice_add_value(axis, "async");
    if (config->max_staleness >= 1) dl_advice_add_value(axis, "softsync");
}

static void add_intervals(const dl_advice_search *s, dl_advice_axis *axis)
{
    static const int64_t steps[] = {1, 2, 5, 10, 20, 50, 100, 200, 500};
    const int64_t most = s->advice->config.max_interval;
    add_option(s, axis, DL_SYNC_INTERVAL, "1");
    for (size_t i = 0; i < DL_LENGTH(steps) && steps[i] <= most; i++)
        dl_advice_add_number(axis, steps[i]);
    dl_advice_add_number(axis, most);
    sort_numbers(axis);
}

/* Adds the scenario's batches, repeated doublings of them up to the limit, and the limit itself
 * (FILL for batches per worker). */
static void add_batches(const dl_advice_search *s, dl_advice_axis *axis)
{
    const int64_t most = s->advice->config.max_batch;
    for (size_t v = 0; v < s->study->variant_count; v++) {
        const dl_scenario *scenario = &s->study->variants[v].scenario;
        for (size_t p = 0; p < scenario->point_count; p++) {
            const dl_point *point = &scenario->points[p];
            const int64_t each = scenario->batch_per_worker ? point->workers : 1;
            for (int64_t b = point->batch / each; b <= most; b *= 2)
                dl_advice_add_number(axis, b);
        }
    }
    if (!s->scenario->batch_per_worker) dl_advice_add_number(axis, most);
    sort_numbers(axis);
    if (s->scenario->batch_per_worker) dl_advice_add_value(axis, FILL);
    axis->start = axis->count - 1;
}

/* Smallest memory of the GPUs, bytes. */
static double least_memory(const dl_machine *m)
{
    double least = INFINITY;
    for (int i = 0; i < m->model_count; i++)
        if (dl_machine_has_model(m, i)) least = fmin(least, m->models[i].memory_bytes.value);
    return least;
}

/* Adds "none", the scenario's value and, if the vectors that can be sharded take a large part of a
 * GPU's memory, every kind of sharding. */
static void add_sharded(const dl_advice_search *s)
{
    dl_advice_axis *axis = &s->advice->axes[SHARDED];
    const dl_costs *costs = &s->study->variants[0].costs;
    const double memory_bytes = least_memory(&s->scenario->gpu->machine);
    const double divided_bytes = 2 * (double)costs->parameter_bytes + (double)costs->state_bytes +
                                 (double)costs->frozen_bytes;
    dl_advice_add_value(axis, "none");
    add_given(s, axis, NULL);
    if (costs->parameter_bytes < 0 || costs->state_bytes < 0 ||
        divided_bytes < SHARDED_FRAC * memory_bytes)
        return;
    dl_advice_add_value(axis, "optimizer");
    dl_advice_add_value(axis, "gradients");
    dl_advice_add_value(axis, "parameters");
}

/* The overlap of a scenario that does not give it: that of the program of the costs, but none with
 * a lag. */
static const char *usual_overlap(const dl_advice_search *s)
{
    const bool lags = s->advice->axes[LAG].count > 1;
    return s->study->variants[0].costs.overlap && !lags ? "yes" : "no";
}

static void add_exchange(const dl_advice_search *s)
{
    static const char *const buckets[] = {"1000000", "5000000", "25000000", "100000000"};
    dl_advice *advice = s->advice;
    dl_advice_axis *where = &advice->axes[WHERE], *shards = &advice->axes[SHARDS];
    add_given(s, where, NULL);
    dl_advice_add_value(where, "allreduce");
    dl_advice_add_value(where, "gpu:0");
    dl_advice_add_value(where, "cpu");
    add_given(s, shards, "1");
    if (s->scenario->gpu->machine.nodes > 1) dl_advice_add_value(shards, "workers");
    dl_advice_add_value(&advice->axes[OVERLAP], usual_overlap(s));
    dl_advice_add_value(&advice->axes[OVERLAP], "no");
    dl_advice_add_value(&advice->axes[OVERLAP], "yes");
    add_given(s, &advice->axes[OVERLAP], NULL);
    dl_advice_add_value(&advice->axes[BUCKET], "");
    add_given(s, &advice->axes[BUCKET], NULL);
    for (size_t i = 0; i < DL_LENGTH(buckets); i++)
        if (atof(buckets[i]) < (double)s->study->variants[0].costs.parameter_bytes)
            dl_advice_add_value(&advice->axes[BUCKET], buckets[i]);
    dl_advice_add_value(&advice->axes[COMPRESS], "none");
    add_given(s, &advice->axes[COMPRESS], NULL);
    dl_advice_add_value(&advice->axes[COMPRESS], "fp16");
    add_sharded(s);
}

static bool is_fixed(const dl_advice *advice, const dl_swept_key *key)
{
    for (size_t a = 0; a < FIXED; a++)
        if (strcmp(advice->axes[a].section, key->section) == 0 &&
            strcmp(advice->axes[a].key, key->key) == 0)
            return true;
    return false;
}

/* On cores, whose number identifies points, adds the numbers that the scenario lists. */
static void add_cores(const dl_advice_search *s)
{
    const dl_ini_entry *entry = dl_ini_find(&s->base, "machine", "cores");
    char **items = NULL;
    size_t count = 0;
    if (entry == NULL || dl_ini_split(&s->base, entry, &items, &count, NULL) != DL_OK) return;
    dl_advice_axis *axis = add_axis(s->advice, "machine", "cores");
    for (size_t i = 0; i < count; i++)
        dl_advice_add_value(axis, items[i]);
    dl_ini_free_list(items, count);
}

/* If GPUs differ, adds shares of the batch in proportion to their speed, unless the scenario lists
 * several kinds of shares. */
static void add_shares(const dl_advice_search *s)
{
    if (s->study->variants[0].costs.model_count == 0 ||
        dl_study_swept(s->study, "workload", "shares") != NULL)
        return;
    dl_advice_axis *axis = add_axis(s->advice, "workload", "shares");
    add_given(s, axis, NULL);
    dl_advice_add_value(axis, "equal");
    dl_advice_add_value(axis, "speed");
}

bool dl_advice_add_recomputed(const dl_advice_search *s)
{
    static const dl_recompute ways[] = {DL_RECOMPUTE_SELECTIVE, DL_RECOMPUTE_PRODUCTS,
                                        DL_RECOMPUTE_FULL};
    dl_advice_axis *axis = &s->advice->axes[RECOMPUTE];
    if (axis->count > 1 || axis->values[0][0] != '\0' ||
        !dl_recompute_saves(s->scenario, DL_RECOMPUTE_FULL))
        return false;
    for (size_t i = 0; i < DL_LENGTH(ways); i++)
        if (dl_recompute_saves(s->scenario, ways[i]))
            dl_advice_add_value(axis, dl_recompute_names[ways[i]]);
    return true;
}

void dl_advice_make_space(dl_advice_search *s)
{
    static const struct {
        const char *section, *key;
    } fixed[FIXED] = {
        [WORKERS] = {"machine", "workers"},
        [MODE] = {"sync", "mode"},
        [BATCH] = {"workload", "batch"},
        [ACCUMULATE] = {"sync", "accumulate"},
        [INTERVAL] = {"sync", "interval"},
        [N] = {"sync", "n"},
        [BOUND] = {"sync", "bound"},
        [K] = {"sync", "k"},
        [LAG] = {"sync", "lag"},
        [WHERE] = {"sync", "where"},
        [SHARDS] = {"exchange", "shards"},
        [OVERLAP] = {"exchange", "overlap"},
        [BUCKET] = {"exchange", "bucket_bytes"},
        [COMPRESS] = {"exchange", "compress"},
        [SHARDED] = {"exchange", "sharded"},
        [RECOMPUTE] = {"workload", "recompute"},
    };
    dl_advice *advice = s->advice;
    set_limits(s);
    const double stale = advice->config.max_staleness;
    for (int a = 0; a < FIXED; a++)
        add_axis(advice, fixed[a].section,
                 a == BATCH && s->scenario->batch_per_worker ? "batch_per_worker" : fixed[a].key);
    add_workers(s, &advice->axes[WORKERS]);
    add_modes(s, &advice->axes[MODE]);
    add_batches(s, &advice->axes[BATCH]);
    add_option(s, &advice->axes[ACCUMULATE], DL_SYNC_ACCUMULATE, "1");
    for (int64_t m = 1; m <= 8; m *= 2)
        dl_advice_add_number(&advice->axes[ACCUMULATE], m);
    sort_numbers(&advice->axes[ACCUMULATE]);
    add_intervals(s, &advice->axes[INTERVAL]);
    add_option(s, &advice->axes[N], DL_SYNC_N, "1");
    add_option(s, &advice->axes[BOUND], DL_SYNC_BOUND, "");
    if (isfinite(stale) && stale >= 1) dl_advice_add_number(&advice->axes[BOUND], (int64_t)stale);
    add_option(s, &advice->axes[K], DL_SYNC_K, "");
    dl_advice_add_value(&advice->axes[LAG], "0");
    if (stale >= 1) dl_advice_add_value(&advice->axes[LAG], "1");
    if (advice->on_gpus) add_exchange(s);
    add_given(s, &advice->axes[RECOMPUTE], "");
    for (size_t k = 0; k < s->study->key_count; k++) {
        const dl_swept_key *key = &s->study->keys[k];
        if (!is_fixed(advice, key)) add_given(s, add_axis(advice, key->section, key->key), NULL);
    }
    add_shares(s);
    add_cores(s);
}

/* --- points ----------------------------------------------------------------------------------- */

static const char *value_at(const dl_advice *advice, const size_t *at, size_t axis)
{
    const dl_advice_axis *a = &advice->axes[axis];
    return at[axis] < a->count ? a->values[at[axis]] : "";
}

const dl_mode *dl_advice_mode(const dl_advice *advice, const size_t *at)
{
    const int found = dl_names_find(value_at(advice, at, MODE), dl_mode_names, DL_MODES);
    return found >= 0 ? dl_modes[found] : &dl_mode_none;
}

/* Whether the mode can exchange at that place: averages can be all-reduced, but gradients that are
 * summed or applied on arrival need a server. */
static bool can_be_at(const dl_mode *mode, const char *where)
{
    return strcmp(where, "allreduce") != 0 || mode->through & DL_THROUGH_COLLECTIVE;
}

static bool is_sharded(const dl_advice *advice, const size_t *at)
{
    const char *sharded = value_at(advice, at, SHARDED);
    return sharded[0] != '\0' && strcmp(sharded, "none") != 0;
}

/* Value of a key in the point: that of its axis, or the scenario's; "": not given. */
static const char *given_value(const dl_advice_search *s, const size_t *at, const char *section,
                               const char *key)
{
    const dl_ini_entry *entry = dl_ini_find(&s->base, section, key);
    for (size_t a = FIXED; a < s->advice->axis_count; a++)
        if (strcmp(s->advice->axes[a].section, section) == 0 &&
            strcmp(s->advice->axes[a].key, key) == 0)
            return value_at(s->advice, at, a);
    return entry != NULL ? entry->value : "";
}

/* Whether the scenario gives the micro-batches of a worker, in number or size. */
static bool gives_micro_batches(const dl_advice_search *s)
{
    return dl_ini_find(&s->base, "pipeline", "micro_batch") != NULL ||
           dl_ini_find(&s->base, "pipeline", "micro_batches") != NULL;
}

static bool applies(const dl_advice_search *s, const size_t *at, size_t axis)
{
    const dl_advice *advice = s->advice;
    const dl_advice_axis *a = &advice->axes[axis];
    const bool alone = strcmp(value_at(advice, at, WORKERS), "1") == 0;
    const dl_mode *mode = alone ? &dl_mode_none : dl_advice_mode(advice, at);
    const bool overlaps = strcmp(value_at(advice, at, OVERLAP), "yes") == 0;
    const bool sums = mode->exchange == DL_EXCHANGES_GRADIENTS;
    const bool reduces = dl_mode_reduces_gradients(mode);
    const bool averages = mode->needs & DL_NEED_AVERAGE && !sums;
    const char *where = value_at(advice, at, WHERE), *lag = value_at(advice, at, LAG);
    switch (axis) {
    case WORKERS:
    case BATCH:
    case RECOMPUTE: return true;
    case ACCUMULATE: return !gives_micro_batches(s);
    case MODE: return !alone;
    case INTERVAL: return dl_mode_takes(mode, DL_SYNC_INTERVAL);
    case N: return dl_mode_takes(mode, DL_SYNC_N);
    case BOUND: return dl_mode_takes(mode, DL_SYNC_BOUND);
    case K: return dl_mode_takes(mode, DL_SYNC_K);
    case LAG: return sums && a->count > 1 && !overlaps;
    case WHERE: return advice->on_gpus && dl_mode_takes(mode, DL_SYNC_WHERE);
    case SHARDS:
        return advice->on_gpus && dl_mode_takes(mode, DL_SYNC_WHERE) &&
               strcmp(where, "allreduce") != 0;
    case OVERLAP: return advice->on_gpus && sums;
    case BUCKET: return advice->on_gpus && (reduces || (sums && overlaps));
    case COMPRESS:
        return advice->on_gpus && mode->exchange != DL_EXCHANGES_NOTHING && !averages &&
               !is_sharded(advice, at);
    case SHARDED: return advice->on_gpus && reduces && lag[0] != '1';
    default: break;
    }
    if (strcmp(a->key, "topk_frac") == 0)
        return strcmp(value_at(advice, at, COMPRESS), "topk") == 0;
    if (strcmp(a->section, "exchange") == 0 || strcmp(a->key, "shares") == 0) return !alone;
    const dl_key *key = dl_keys_find(&dl_scenario_keys, a->section, a->key);
    const int option = dl_key_option(key);
    return option < 0 || dl_mode_takes(mode, option);
}

/* Sharded parameters require overlap. */
static void allow_sharded(const dl_advice *advice, size_t *at)
{
    const dl_advice_axis *overlap = &advice->axes[OVERLAP];
    if (strcmp(value_at(advice, at, SHARDED), "parameters") != 0) return;
    const int yes = dl_names_find("yes", (const char *const *)overlap->values, overlap->count);
    at[OVERLAP] = yes >= 0 ? (size_t)yes : 0;
}

/* Clears inapplicable settings and sets missing applicable ones to the axis' start, so that equal
 * points have equal values. */
static void normalize(const dl_advice_search *s, size_t *at)
{
    const dl_advice *advice = s->advice;
    for (int pass = 0; pass < 2; pass++) { /* twice, as applicability depends on values set in the
                                            * first pass */
        for (size_t a = 0; a < advice->axis_count; a++) {
            const dl_advice_axis *axis = &advice->axes[a];
            if (!applies(s, at, a)) {
                at[a] = NOTHING;
            } else if (at[a] >= axis->count) {
                at[a] = axis->start;
            }
            if (a == SHARDED) allow_sharded(advice, at);
            if (a != WHERE || at[a] >= axis->count) continue;
            for (size_t v = 0; !can_be_at(dl_advice_mode(advice, at), value_at(advice, at, WHERE));
                 v++)
                at[a] = v;
        }
    }
}

int64_t dl_advice_batch(const dl_advice_search *s, const size_t *at)
{
    const dl_advice *advice = s->advice;
    const int64_t workers = atoll(value_at(advice, at, WORKERS));
    const int64_t given[] = {atoll(value_at(advice, at, ACCUMULATE)),
                             atoll(given_value(s, at, "pipeline", "micro_batches")),
                             atoll(given_value(s, at, "pipeline", "micro_batch")),
                             dl_scenario_layout_batches(given_value(s, at, "machine", "layout"))};
    int64_t shares = workers;
    for (size_t i = 0; i < DL_LENGTH(given); i++)
        shares *= given[i] > 1 ? given[i] : 1;
    const bool fill = strcmp(value_at(advice, at, BATCH), FILL) == 0;
    int64_t batch = fill ? advice->config.max_batch : atoll(value_at(advice, at, BATCH));
    if (s->scenario->batch_per_worker && !fill) batch *= workers;
    return batch - batch % shares;
}

/* Whether points keep this key of the scenario. */
static bool stays(const dl_ini_entry *entry, const dl_mode *mode)
{
    if (strcmp(entry->section, "measured") == 0) return false;
    const dl_key *key = dl_keys_find(&dl_scenario_keys, entry->section, entry->key);
    const int option = key != NULL ? dl_key_option(key) : -1;
    return option < 0 || dl_mode_takes(mode, option);
}

/* Returns the axis' value in the scenario's notation, owned by the caller; NULL: the key is left
 * out. */
static char *point_value(const dl_advice_search *s, const size_t *at, size_t axis)
{
    const char *value = value_at(s->advice, at, axis);
    if (axis == MODE) return dl_strdup(dl_advice_mode(s->advice, at)->name);
    if (axis != BATCH) return value[0] != '\0' ? dl_strdup(value) : NULL;
    const int64_t workers = atoll(value_at(s->advice, at, WORKERS));
    const int64_t batch = dl_advice_batch(s, at);
    return dl_format("%lld", (long long)(s->scenario->batch_per_worker ? batch / workers : batch));
}

/* Returns the scenario with only this point; the caller frees it. */
static char *point_text(const dl_advice_search *s, const size_t *at)
{
    char *text = dl_strdup(s->text);
    for (size_t e = 0; e < s->base.count; e++) {
        const dl_ini_entry *entry = &s->base.entries[e];
        if (!stays(entry, dl_advice_mode(s->advice, at)))
            dl_ini_text_remove(&text, entry->section, entry->key);
    }
    for (size_t a = 0; a < s->advice->axis_count; a++) {
        const dl_advice_axis *axis = &s->advice->axes[a];
        DL_AUTOFREE char *value = point_value(s, at, a);
        if (value != NULL) {
            dl_ini_text_set(&text, axis->section, axis->key, value);
        } else {
            dl_ini_text_remove(&text, axis->section, axis->key);
        }
    }
    return text;
}

/* Writes the machine's name if --machine knows it, else its file. */
static void put_machine(FILE *out, const char *file)
{
    DL_AUTOFREE char *name = dl_machine_own_name(file);
    fprintf(out, " --machine %s", name != NULL ? name : file);
}

/* Returns the command-line options that turn the scenario into the point; the caller frees them. */
static char *point_options(const dl_advice_search *s, const size_t *at)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = dl_text_stream(&text, &bytes);
    for (size_t a = 0; a < s->advice->axis_count; a++) {
        const dl_advice_axis *axis = &s->advice->axes[a];
        const dl_ini_entry *entry = dl_ini_find(&s->given, axis->section, axis->key);
        const dl_key *key = dl_keys_find(&dl_scenario_keys, axis->section, axis->key);
        const char *option = dl_scenario_option_of(axis->section, axis->key);
        const char *now = entry != NULL  ? entry->value
                          : a == OVERLAP ? usual_overlap(s)
                                         : key->fallback;
        DL_AUTOFREE char *value = point_value(s, at, a);
        if (value == NULL || (now != NULL && strcmp(now, value) == 0)) continue;
        if (option == NULL) {
            fprintf(out, " --set %s.%s=%s", axis->section, axis->key, value);
        } else if (strcmp(option, "machine") == 0) {
            put_machine(out, value);
        } else {
            fprintf(out, " --%s %s", option, value);
        }
    }
    fclose(out);
    return text;
}

/* Returns the settings from axis ACCUMULATE on, "overlap yes, bucket_bytes 25 MB"; the caller frees
 * them. Settings before FIXED, except `where`, are left out if they equal the default. */
static char *settings_text(const dl_advice_search *s, const size_t *at)
{
    const dl_advice *advice = s->advice;
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = dl_text_stream(&text, &bytes);
    bool any = false;
    for (size_t a = ACCUMULATE; a < advice->axis_count; a++) {
        const dl_advice_axis *axis = &advice->axes[a];
        const char *value = value_at(advice, at, a);
        const char *usual =
            a == OVERLAP ? usual_overlap(s)
                         : dl_keys_find(&dl_scenario_keys, axis->section, axis->key)->fallback;
        if (value[0] == '\0' ||
            (a < FIXED && a != WHERE && usual != NULL && strcmp(usual, value) == 0))
            continue;
        const size_t file = strlen(value) > 4 && dl_ends_with(value, ".ini") ? 4 : 0;
        if (file > 0) value = dl_base_name(value);
        fprintf(out, "%s%s ", any ? ", " : "",
                strcmp(axis->key, "file") == 0 ? axis->section : axis->key);
        if (a == BUCKET && atof(value) > 0 && strspn(value, "0123456789") == strlen(value)) {
            fputs(DL_BYTES_TEXT(atof(value)), out);
        } else {
            fprintf(out, "%.*s", (int)(strlen(value) - file), value);
        }
        any = true;
    }
    fclose(out);
    return text;
}

void dl_advised_free(dl_advised *point)
{
    free(point->at);
    free(point->text);
    free(point->settings);
    free(point->options);
    free(point->why);
    free(point->row.rates);
    free(point->row.error);
}

size_t dl_advice_add_point(dl_advice_search *s, const size_t *wanted)
{
    dl_advice *advice = s->advice;
    const size_t bytes = advice->axis_count * sizeof *wanted;
    dl_advised point = {.at = dl_calloc(advice->axis_count, sizeof *point.at, "settings")};
    memcpy(point.at, wanted, bytes);
    normalize(s, point.at);
    point.text = point_text(s, point.at);
    for (size_t i = 0; i < advice->point_count; i++) {
        if (strcmp(advice->points[i].text, point.text) != 0) continue;
        dl_advised_free(&point);
        return i;
    }
    point.options = point_options(s, point.at);
    point.settings = settings_text(s, point.at);
    point.score = (double)-INFINITY;
    point.row.mean.throughput_per_s = (double)NAN;
    point.usd_per_hour = point.hours = point.usd = point.deadline_frac = (double)NAN;
    DL_APPEND(advice->points, advice->point_count, "points") = point;
    return advice->point_count - 1;
}

bool dl_advice_same_rest(const dl_advice *advice, size_t a, size_t b)
{
    const size_t *x = advice->points[a].at, *y = advice->points[b].at;
    bool same = true;
    for (size_t e = FIXED; e < advice->axis_count; e++)
        same &= x[e] == y[e];
    return same;
}

bool dl_advice_is_served(const dl_advice *advice, const dl_advised *point)
{
    const dl_advice_axis *where = &advice->axes[WHERE];
    return point->at[WHERE] < where->count &&
           strcmp(where->values[point->at[WHERE]], "allreduce") != 0;
}
