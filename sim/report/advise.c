#include "sim/report/advise.h"

#include <gsl/gsl_cdf.h>
#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/ini.h"
#include "common/names.h"
#include "common/units.h"
#include "sim/scenario/keys.h"
#include "sim/scenario/without.h"

#define COARSE_STEPS 40
#define FINAL_STEPS 200
#define FINAL_DRAWS 40
#define FINAL_DRAWS_LEAST 10
#define FINAL_EVENTS 60000000 /* of all draws of the final points */
#define COARSE_EVENTS 400000000
#define BEAM 3
#define ROUNDS 8
#define GAINED 1.002 /* a change that is made */
#define BEYOND_GAIN 1.02
#define WORKERS_DENSE 16 /* up to here every number is tried */
#define WORKERS_NEAR 2   /* numbers of workers above and below that a round tries within limits */
#define NOTHING SIZE_MAX /* value of a setting that means nothing in a point */
#define FILL "fill"      /* batch per worker: as much as the limit lets */

const char *const dl_goal_names[DL_GOALS + 1] = {"throughput", "cost", "deadline", NULL};

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
    FIXED /* then what else the scenario lists */
};

typedef struct search {
    dl_advice *advice;
    const dl_study *study;
    const dl_scenario *scenario; /* of the first variant */
    dl_ini base;
    const char *batch_key;
    size_t searched; /* points */
    int64_t events;
} search;

/* --- axes ------------------------------------------------------------------------------------- */

static dl_advice_axis *add_axis(dl_advice *advice, const char *section, const char *key)
{
    advice->axes =
        dl_realloc(advice->axes, advice->axis_count + 1, sizeof *advice->axes, "settings");
    dl_advice_axis *axis = &advice->axes[advice->axis_count++];
    *axis = (dl_advice_axis){.section = dl_strdup(section), .key = dl_strdup(key)};
    return axis;
}

static size_t add_value(dl_advice_axis *axis, const char *value)
{
    const int found = dl_names_find(value, (const char *const *)axis->values, axis->count);
    if (found >= 0) return (size_t)found;
    axis->values = dl_realloc(axis->values, axis->count + 1, sizeof *axis->values, "values");
    axis->values[axis->count] = dl_strdup(value);
    return axis->count++;
}

static size_t add_number(dl_advice_axis *axis, int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    return add_value(axis, text);
}

static int compare_numbers(const void *a, const void *b)
{
    const long long x = atoll(*(char *const *)a), y = atoll(*(char *const *)b);
    return (x > y) - (x < y);
}

static void sort_numbers(dl_advice_axis *axis)
{
    qsort(axis->values, axis->count, sizeof *axis->values, compare_numbers);
}

static const dl_swept_key *swept(const dl_study *study, const char *section, const char *key)
{
    for (size_t k = 0; k < study->key_count; k++)
        if (strcmp(study->keys[k].section, section) == 0 && strcmp(study->keys[k].key, key) == 0)
            return &study->keys[k];
    return NULL;
}

/* The scenario's values of the key, the first of which the axis starts at; the default if none. */
static void add_given(const search *s, dl_advice_axis *axis, const char *fallback)
{
    const dl_swept_key *list = swept(s->study, axis->section, axis->key);
    const dl_ini_entry *entry = dl_ini_find(&s->base, axis->section, axis->key);
    if (list != NULL) {
        axis->start = add_value(axis, list->values[0]);
        for (size_t i = 1; i < list->count; i++)
            add_value(axis, list->values[i]);
    } else if (fallback != NULL || entry != NULL) {
        axis->start = add_value(axis, entry != NULL ? entry->value : fallback);
    }
}

/* The scenario's values of an option of its points; the default if no mode of it takes it. */
static void add_option(const search *s, dl_advice_axis *axis, int option, const char *fallback)
{
    for (size_t v = 0; v < s->study->variant_count; v++) {
        const dl_scenario *scenario = &s->study->variants[v].scenario;
        for (size_t p = 0; p < scenario->point_count; p++) {
            const dl_point *point = &scenario->points[p];
            char number[DL_DOUBLE_TEXT_BYTES];
            if (!(point->mode->options & 1u << option) || !isfinite(point->option[option]))
                continue;
            add_value(axis, dl_format_double(number, point->option[option]));
        }
    }
    if (axis->count == 0) add_value(axis, fallback);
}

/* 1 to 16, then 24, 32, 48, 64, ..., and the scenario's largest number. */
static void add_workers(const search *s, dl_advice_axis *axis)
{
    int most = 1;
    for (size_t v = 0; v < s->study->variant_count; v++) {
        const dl_scenario *scenario = &s->study->variants[v].scenario;
        for (size_t p = 0; p < scenario->point_count; p++)
            if (scenario->points[p].workers > most) most = scenario->points[p].workers;
    }
    for (int n = 1; n <= most && n <= WORKERS_DENSE; n++)
        add_number(axis, n);
    for (int n = WORKERS_DENSE; n < most; n *= 2) {
        if (n / 2 * 3 < most && n > WORKERS_DENSE) add_number(axis, n / 2 * 3);
        if (n > WORKERS_DENSE) add_number(axis, n);
        if (n == WORKERS_DENSE && 24 < most) add_number(axis, 24);
    }
    add_number(axis, most);
    sort_numbers(axis);
}

static bool is_stale(const dl_point *point)
{
    return point->mode->staleness == DL_MODE_STALENESS_SOME || point->option[DL_SYNC_LAG] > 0;
}

/* The limits that the config leaves open become the scenario's. */
static void set_limits(search *s)
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
            if (point->mode->options & 1u << DL_SYNC_INTERVAL &&
                point->option[DL_SYNC_INTERVAL] > (double)interval) {
                interval = (int64_t)point->option[DL_SYNC_INTERVAL];
            }
        }
    }
    if (config->max_batch == 0) config->max_batch = batch;
    if (config->max_interval == 0) config->max_interval = interval;
    if (isnan(config->max_staleness)) config->max_staleness = stale ? (double)INFINITY : 0;
}

/* The scenario's modes, then those that the limits allow. */
static void add_modes(const search *s, dl_advice_axis *axis)
{
    const dl_advice_config *config = &s->advice->config;
    for (size_t v = 0; v < s->study->variant_count; v++) {
        const dl_scenario *scenario = &s->study->variants[v].scenario;
        for (size_t p = 0; p < scenario->point_count; p++) {
            const dl_mode *mode = scenario->points[p].mode;
            if (mode != &dl_mode_none) add_value(axis, mode->name);
        }
    }
    add_value(axis, "allreduce");
    add_value(axis, "ps");
    add_value(axis, "average");
    if (config->max_staleness > 0) add_value(axis, "async");
    if (config->max_staleness >= 1) add_value(axis, "softsync");
}

static void add_intervals(const search *s, dl_advice_axis *axis)
{
    static const int64_t steps[] = {1, 2, 5, 10, 20, 50, 100, 200, 500};
    const int64_t most = s->advice->config.max_interval;
    add_option(s, axis, DL_SYNC_INTERVAL, "1");
    for (size_t i = 0; i < sizeof steps / sizeof *steps && steps[i] <= most; i++)
        add_number(axis, steps[i]);
    add_number(axis, most);
    sort_numbers(axis);
}

/* The scenario's, twice these, and so on up to the limit. */
static void add_batches(const search *s, dl_advice_axis *axis)
{
    const int64_t most = s->advice->config.max_batch;
    for (size_t v = 0; v < s->study->variant_count; v++) {
        const dl_scenario *scenario = &s->study->variants[v].scenario;
        for (size_t p = 0; p < scenario->point_count; p++) {
            const dl_point *point = &scenario->points[p];
            const int64_t each = scenario->batch_per_worker ? point->workers : 1;
            for (int64_t b = point->batch / each; b <= most; b *= 2)
                add_number(axis, b);
        }
    }
    if (!s->scenario->batch_per_worker) add_number(axis, most);
    sort_numbers(axis);
    if (s->scenario->batch_per_worker) add_value(axis, FILL);
    axis->start = axis->count - 1;
}

static void add_exchange(const search *s)
{
    static const char *const buckets[] = {"1000000", "5000000", "25000000", "100000000"};
    dl_advice *advice = s->advice;
    dl_advice_axis *where = &advice->axes[WHERE], *shards = &advice->axes[SHARDS];
    add_given(s, where, NULL);
    add_value(where, "allreduce");
    add_value(where, "gpu:0");
    add_value(where, "cpu");
    add_given(s, shards, "1");
    if (s->scenario->gpu->machine.nodes > 1) add_value(shards, "workers");
    add_value(&advice->axes[OVERLAP], "no");
    add_value(&advice->axes[OVERLAP], "yes");
    add_given(s, &advice->axes[OVERLAP], NULL);
    add_value(&advice->axes[BUCKET], "");
    add_given(s, &advice->axes[BUCKET], NULL);
    for (size_t i = 0; i < sizeof buckets / sizeof *buckets; i++)
        if (atof(buckets[i]) < (double)s->study->variants[0].costs.parameter_bytes)
            add_value(&advice->axes[BUCKET], buckets[i]);
    add_value(&advice->axes[COMPRESS], "none");
    add_given(s, &advice->axes[COMPRESS], NULL);
    add_value(&advice->axes[COMPRESS], "fp16");
}

static bool is_fixed(const dl_advice *advice, const dl_swept_key *key)
{
    for (size_t a = 0; a < FIXED; a++)
        if (strcmp(advice->axes[a].section, key->section) == 0 &&
            strcmp(advice->axes[a].key, key->key) == 0)
            return true;
    return false;
}

/* On cores, whose numbers make points: those that the scenario lists. */
static void add_cores(const search *s)
{
    const dl_ini_entry *entry = dl_ini_find(&s->base, "machine", "cores");
    char **items = NULL;
    size_t count = 0;
    if (entry == NULL || dl_ini_split(&s->base, entry, &items, &count, NULL) != DL_OK) return;
    dl_advice_axis *axis = add_axis(s->advice, "machine", "cores");
    for (size_t i = 0; i < count; i++)
        add_value(axis, items[i]);
    dl_ini_free_list(items, count);
}

static void make_axes(search *s)
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
    };
    dl_advice *advice = s->advice;
    const double stale = advice->config.max_staleness;
    for (int a = 0; a < FIXED; a++)
        add_axis(advice, fixed[a].section, a == BATCH ? s->batch_key : fixed[a].key);
    add_workers(s, &advice->axes[WORKERS]);
    add_modes(s, &advice->axes[MODE]);
    add_batches(s, &advice->axes[BATCH]);
    add_option(s, &advice->axes[ACCUMULATE], DL_SYNC_ACCUMULATE, "1");
    for (int64_t m = 1; m <= 8; m *= 2)
        add_number(&advice->axes[ACCUMULATE], m);
    sort_numbers(&advice->axes[ACCUMULATE]);
    add_intervals(s, &advice->axes[INTERVAL]);
    add_option(s, &advice->axes[N], DL_SYNC_N, "1");
    add_option(s, &advice->axes[BOUND], DL_SYNC_BOUND, "");
    if (isfinite(stale) && stale >= 1) add_number(&advice->axes[BOUND], (int64_t)stale);
    add_option(s, &advice->axes[K], DL_SYNC_K, "");
    add_value(&advice->axes[LAG], "0");
    if (stale >= 1) add_value(&advice->axes[LAG], "1");
    if (advice->on_gpus) add_exchange(s);
    for (size_t k = 0; k < s->study->key_count; k++) {
        const dl_swept_key *key = &s->study->keys[k];
        if (!is_fixed(advice, key)) add_given(s, add_axis(advice, key->section, key->key), NULL);
    }
    add_cores(s);
}

/* --- points ----------------------------------------------------------------------------------- */

static const char *value_at(const dl_advice *advice, const size_t *at, size_t axis)
{
    const dl_advice_axis *a = &advice->axes[axis];
    return at[axis] < a->count ? a->values[at[axis]] : "";
}

static const dl_mode *mode_at(const dl_advice *advice, const size_t *at)
{
    const int found = dl_names_find(value_at(advice, at, MODE), dl_mode_names, DL_MODES);
    return found >= 0 ? dl_modes[found] : &dl_mode_none;
}

/* Averages can be all-reduced; what is applied on arrival, or summed, has a server. */
static bool can_be_at(const dl_mode *mode, const char *where)
{
    const bool reduced = mode->needs & DL_NEED_AVERAGE && !(mode->wait & DL_MODE_WAIT_LOCK);
    return strcmp(where, "allreduce") != 0 || reduced;
}

static bool applies(const dl_advice *advice, const size_t *at, size_t axis)
{
    const dl_advice_axis *a = &advice->axes[axis];
    const bool alone = strcmp(value_at(advice, at, WORKERS), "1") == 0;
    const dl_mode *mode = alone ? &dl_mode_none : mode_at(advice, at);
    const bool overlaps = strcmp(value_at(advice, at, OVERLAP), "yes") == 0;
    const bool sums = mode == &dl_mode_allreduce || mode == &dl_mode_ps;
    const bool averages = mode->needs & DL_NEED_AVERAGE && mode != &dl_mode_allreduce;
    const char *where = value_at(advice, at, WHERE);
    switch (axis) {
    case WORKERS:
    case BATCH:
    case ACCUMULATE: return true;
    case MODE: return !alone;
    case INTERVAL: return mode->options & 1u << DL_SYNC_INTERVAL;
    case N: return mode->options & 1u << DL_SYNC_N;
    case BOUND: return mode->options & 1u << DL_SYNC_BOUND;
    case K: return mode->options & 1u << DL_SYNC_K;
    case LAG: return mode->options & 1u << DL_SYNC_LAG && a->count > 1 && !overlaps;
    case WHERE: return advice->on_gpus && mode->options & 1u << DL_SYNC_WHERE;
    case SHARDS:
        return advice->on_gpus && mode->options & 1u << DL_SYNC_WHERE &&
               strcmp(where, "allreduce") != 0;
    case OVERLAP: return advice->on_gpus && sums;
    case BUCKET: return advice->on_gpus && (mode == &dl_mode_allreduce || (sums && overlaps));
    case COMPRESS: return advice->on_gpus && mode != &dl_mode_none && !averages;
    default: break;
    }
    if (strcmp(a->key, "topk_frac") == 0)
        return strcmp(value_at(advice, at, COMPRESS), "topk") == 0;
    if (strcmp(a->section, "exchange") == 0) return !alone;
    const dl_key *key = dl_keys_find(&dl_scenario_keys, a->section, a->key);
    const int option = dl_key_option(key);
    return option < 0 || mode->options & 1u << option;
}

/* Makes one of all points that are the same: settings that mean nothing in it have no value. */
static void normalize(const dl_advice *advice, size_t *at)
{
    for (int pass = 0; pass < 2; pass++) { /* what applies depends on values that may be set here */
        for (size_t a = 0; a < advice->axis_count; a++) {
            const dl_advice_axis *axis = &advice->axes[a];
            if (!applies(advice, at, a)) {
                at[a] = NOTHING;
            } else if (at[a] >= axis->count) {
                at[a] = axis->start;
            }
            if (a != WHERE || at[a] >= axis->count) continue;
            for (size_t v = 0; !can_be_at(mode_at(advice, at), value_at(advice, at, WHERE)); v++)
                at[a] = v;
        }
    }
}

/* Samples of all workers together, 0 if they cannot share any. */
static int64_t total_batch(const dl_advice *advice, const size_t *at, bool per_worker)
{
    const int64_t workers = atoll(value_at(advice, at, WORKERS));
    const int64_t micro = atoll(value_at(advice, at, ACCUMULATE)), shares = workers * micro;
    const char *value = value_at(advice, at, BATCH);
    int64_t batch = strcmp(value, FILL) == 0 ? advice->config.max_batch : atoll(value);
    if (per_worker && strcmp(value, FILL) != 0) batch *= workers;
    return batch - batch % shares;
}

typedef struct override {
    const char *section, *key;
    char *value; /* NULL: the key is left out */
} override;

static override *find_override(override *list, size_t count, const char *section, const char *key)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i].section, section) == 0 && strcmp(list[i].key, key) == 0) return &list[i];
    return NULL;
}

/* Whether a key of the scenario stays as it is in the points. */
static bool stays(const dl_ini_entry *entry, const dl_mode *mode)
{
    if (strcmp(entry->section, "measured") == 0) return false;
    const dl_key *key = dl_keys_find(&dl_scenario_keys, entry->section, entry->key);
    const int option = key != NULL ? dl_key_option(key) : -1;
    return option < 0 || mode->options & 1u << option;
}

/* The scenario of a point alone, and the options of a command line that say the same. */
static char *point_text(const search *s, const size_t *at, char **options)
{
    static const char *const plain[][2] = {
        {"workers", "workers"}, {"batch", "batch"},       {"batch_per_worker", "batch-per-worker"},
        {"mode", "mode"},       {"interval", "interval"}, {"file", "machine"}};
    const dl_advice *advice = s->advice;
    const size_t count = advice->axis_count;
    override *overrides = dl_calloc(count, sizeof *overrides, "settings");
    const int64_t workers = atoll(value_at(advice, at, WORKERS));
    const int64_t total = total_batch(advice, at, s->scenario->batch_per_worker);
    const dl_mode *mode = mode_at(advice, at);
    char *text = NULL, *changed = NULL;
    size_t bytes = 0, changed_bytes = 0;
    for (size_t a = 0; a < count; a++) {
        const dl_advice_axis *axis = &advice->axes[a];
        const char *value = value_at(advice, at, a);
        overrides[a] = (override){axis->section, axis->key, NULL};
        if (a == BATCH) {
            overrides[a].value = dl_format(
                "%lld", (long long)(s->scenario->batch_per_worker ? total / workers : total));
        } else if (a == MODE) {
            overrides[a].value = dl_strdup(mode->name);
        } else if (value[0] != '\0') {
            overrides[a].value = dl_strdup(value);
        }
    }
    FILE *out = open_memstream(&text, &bytes), *line = open_memstream(&changed, &changed_bytes);
    DL_ASSERT(out != NULL && line != NULL, "no memory for %s", "a scenario");
    /* Sections that the scenario lacks come last. */
    for (size_t i = 0; i < s->base.section_count + count; i++) {
        const bool own = i >= s->base.section_count;
        const char *section =
            own ? overrides[i - s->base.section_count].section : s->base.sections[i].name;
        bool first = true;
        for (size_t before = 0; before < i && before < s->base.section_count; before++)
            first &= strcmp(s->base.sections[before].name, section) != 0;
        for (size_t before = s->base.section_count; before < i; before++)
            first &= strcmp(overrides[before - s->base.section_count].section, section) != 0;
        if (!first || strcmp(section, "measured") == 0) continue;
        fprintf(out, "[%s]\n", section);
        for (size_t e = 0; e < s->base.count; e++) {
            const dl_ini_entry *entry = &s->base.entries[e];
            if (strcmp(entry->section, section) != 0 || !stays(entry, mode) ||
                find_override(overrides, count, section, entry->key) != NULL) {
                continue;
            }
            fprintf(out, "%s = %s\n", entry->key, entry->value);
        }
        for (size_t o = 0; o < count; o++) {
            if (strcmp(overrides[o].section, section) != 0 || overrides[o].value == NULL) continue;
            fprintf(out, "%s = %s\n", overrides[o].key, overrides[o].value);
        }
    }
    for (size_t o = 0; o < count; o++) {
        const override *set = &overrides[o];
        const dl_ini_entry *entry = dl_ini_find(&s->base, set->section, set->key);
        const dl_key *key = dl_keys_find(&dl_scenario_keys, set->section, set->key);
        const char *now = entry != NULL ? entry->value : key->fallback;
        if (set->value == NULL || (now != NULL && strcmp(now, set->value) == 0)) continue;
        const char *option = NULL;
        for (size_t p = 0; p < sizeof plain / sizeof *plain; p++)
            if (strcmp(plain[p][0], set->key) == 0) option = plain[p][1];
        if (option != NULL && strcmp(option, "machine") == 0) {
            const char *name = dl_base_name(set->value);
            fprintf(line, " --machine %.*s", (int)(strlen(name) - strlen(".ini")), name);
        } else if (option != NULL) {
            fprintf(line, " --%s %s", option, set->value);
        } else {
            fprintf(line, " --set %s.%s=%s", set->section, set->key, set->value);
        }
    }
    fclose(out);
    fclose(line);
    for (size_t o = 0; o < count; o++)
        free(overrides[o].value);
    free(overrides);
    *options = changed;
    return text;
}

/* "overlap yes, bucket_bytes 25 MB": what differs from the default. */
static char *settings_text(const dl_advice *advice, const size_t *at)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    DL_ASSERT(out != NULL, "no memory for %s", "settings");
    bool any = false;
    for (size_t a = ACCUMULATE; a < advice->axis_count; a++) {
        const dl_advice_axis *axis = &advice->axes[a];
        const char *value = value_at(advice, at, a);
        const dl_key *key = dl_keys_find(&dl_scenario_keys, axis->section, axis->key);
        if (value[0] == '\0' ||
            (a < FIXED && a != WHERE && key->fallback != NULL && strcmp(key->fallback, value) == 0))
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

static void free_point(dl_advised *point)
{
    free(point->at);
    free(point->text);
    free(point->settings);
    free(point->options);
    free(point->why);
    free(point->row.rates);
    free(point->row.error);
}

/* The number of the point, which is new where it is point_count as it was before. */
static size_t add_point(search *s, const size_t *wanted)
{
    dl_advice *advice = s->advice;
    const size_t bytes = advice->axis_count * sizeof *wanted;
    dl_advised point = {.at = dl_calloc(advice->axis_count, sizeof *point.at, "settings")};
    memcpy(point.at, wanted, bytes);
    normalize(advice, point.at);
    point.text = point_text(s, point.at, &point.options);
    for (size_t i = 0; i < advice->point_count; i++) {
        if (strcmp(advice->points[i].text, point.text) != 0) continue;
        free_point(&point);
        return i;
    }
    point.settings = settings_text(advice, point.at);
    point.score = (double)-INFINITY;
    point.row.mean.throughput_per_s = (double)NAN;
    point.usd_per_hour = point.hours = point.usd = point.deadline_frac = (double)NAN;
    DL_APPEND(advice->points, advice->point_count, "points") = point;
    return advice->point_count - 1;
}

/* --- simulating ------------------------------------------------------------------------------- */

/* Reads the point's scenario and costs as a variant; false, and why, where it cannot be. */
static bool read_point(const search *s, dl_advised *point, dl_variant *variant)
{
    dl_study study = {0};
    dl_error err = {0};
    free(point->why);
    point->why = NULL;
    dl_status status =
        dl_study_read_text(&study, s->study->path, point->text, strlen(point->text), &err);
    if (status == DL_OK) status = dl_study_read_costs(&study, &err);
    if (status != DL_OK) {
        point->out = DL_OUT_REFUSED;
        point->why = dl_strdup(err.text);
        dl_study_free(&study);
        return false;
    }
    dl_variant *read = &study.variants[0];
    const bool pairs = swept(s->study, "workload", "costs") != NULL;
    if (study.point_count != 1 || (pairs && read->scaling.differs)) {
        point->out = DL_OUT_REFUSED;
        point->why = dl_strdup(study.point_count != 1 ? "a list that makes several points of one"
                                                      : "the costs are of another machine's GPU");
        dl_study_free(&study);
        return false;
    }
    dl_without_apply(s->scenario->without, &read->scenario, &read->costs);
    read->scenario.seed = s->scenario->seed;
    point->why = dl_sweep_missing(&read->scenario, &read->costs);
    if (point->why != NULL) {
        point->out = DL_OUT_COSTS;
        dl_study_free(&study);
        return false;
    }
    *variant = *read;
    study.variant_count = 0;
    dl_study_free(&study);
    return true;
}

static double rate_score(const dl_advice *advice, const dl_advised *point, double per_s)
{
    const dl_advice_config *config = &advice->config;
    const double hours = config->samples / per_s / 3600;
    switch (config->goal) {
    case DL_GOAL_COST: return per_s * 3600 / point->usd_per_hour;
    case DL_GOAL_DEADLINE:
        if (!isnan(point->usd_per_hour)) return 1 / (point->usd_per_hour * hours);
        return 1.0 / point->gpus;
    case DL_GOAL_THROUGHPUT:
    case DL_GOALS: break;
    }
    return per_s;
}

/* What its row means for the goal and the limits. */
static void judge(search *s, dl_advised *point, const dl_variant *variant)
{
    const dl_advice *advice = s->advice;
    const dl_advice_config *config = &advice->config;
    const dl_row *row = &point->row;
    const double per_s = row->mean.throughput_per_s;
    point->gpus = dl_point_gpus(&row->point);
    point->usd_per_hour = variant->scenario.gpu != NULL
                              ? dl_gpu_options_usd_per_hour(variant->scenario.gpu, point->gpus)
                              : (double)NAN;
    point->hours = config->samples / per_s / 3600;
    point->usd = point->hours * point->usd_per_hour;
    point->score = rate_score(advice, point, per_s);
    if (isnan(point->score)) point->score = (double)-INFINITY;
    point->deadline_frac = (double)NAN;
    if (!isnan(config->deadline_h) && row->rate_count > 0) {
        size_t met = 0;
        for (size_t r = 0; r < row->rate_count; r++)
            met += config->samples / row->rates[r] / 3600 <= config->deadline_h;
        point->deadline_frac = (double)met / (double)row->rate_count;
    }
    point->out = DL_OUT_NOT;
    if (row->error != NULL) {
        point->out = DL_OUT_MEMORY;
    } else if (row->point.batch > config->max_batch) {
        point->out = DL_OUT_BATCH;
    } else if (row->staleness_mean > config->max_staleness + 1e-9) {
        point->out = DL_OUT_STALENESS;
    } else if (row->point.mode->options & 1u << DL_SYNC_INTERVAL &&
               row->point.option[DL_SYNC_INTERVAL] > (double)config->max_interval) {
        point->out = DL_OUT_INTERVAL;
    } else if (config->min_efficiency > 0 && !(row->efficiency >= config->min_efficiency)) {
        point->out = DL_OUT_EFFICIENCY;
    } else if (!isnan(config->deadline_h) && !(point->hours <= config->deadline_h)) {
        point->out = DL_OUT_DEADLINE;
    } else if (!isnan(config->budget_usd) && !(point->usd <= config->budget_usd)) {
        point->out = DL_OUT_BUDGET;
    }
}

/* Takes the row over, but for what nothing here reads. */
static void take_row(dl_advised *point, dl_row *row)
{
    free(point->row.rates);
    free(point->row.error);
    point->row = *row;
    row->rates = NULL;
    row->error = NULL;
    dl_run_result *mean = &point->row.mean;
    mean->worker_step_s = NULL;
    mean->staleness = NULL;
    mean->split = NULL;
    point->row.worker_staleness = NULL;
    point->row.point.gpus = NULL;
}

typedef struct watched {
    const search *s;
    size_t before, now;
} watched;

static void show_points(void *user, int64_t done, int64_t runs)
{
    const watched *w = user;
    const dl_advice_config *config = &w->s->advice->config;
    config->progress(config->user, (int64_t)w->before + done * (int64_t)w->now / runs,
                     config->max_points);
}

/* Simulates points[count] in one sweep: in full, or in a few steps at the costs as they are. */
static dl_status simulate(search *s, const size_t *points, size_t count, bool final, dl_error *err)
{
    dl_advice *advice = s->advice;
    const int64_t steps = final ? advice->steps : COARSE_STEPS;
    dl_study study = {.variants = dl_calloc(count, sizeof(dl_variant), "points")};
    size_t *of = dl_calloc(count, sizeof *of, "points");
    for (size_t i = 0; i < count; i++) {
        dl_variant variant = {0};
        if (!read_point(s, &advice->points[points[i]], &variant)) continue;
        if (variant.scenario.steps > steps) variant.scenario.steps = steps;
        variant.scenario.replicates = final ? advice->draws : 1;
        of[study.variant_count] = points[i];
        study.variants[study.variant_count++] = variant;
        study.point_count++;
    }
    watched w = {s, s->searched, count};
    const dl_sweep_config config = {advice->config.threads,
                                    advice->config.progress != NULL ? show_points : NULL, &w};
    dl_sweep sweep = {0};
    dl_status status = study.variant_count > 0 ? dl_sweep_run(&sweep, &study, &config, err) : DL_OK;
    for (size_t r = 0; r < sweep.row_count; r++) {
        dl_advised *point = &advice->points[of[r]];
        dl_row *row = &sweep.rows[r];
        take_row(point, row);
        point->is_final = final;
        judge(s, point, &study.variants[r]);
    }
    s->searched += count;
    s->events += sweep.events;
    if (status != DL_OK && study.variant_count == 1 && err != NULL) {
        dl_advised *point = &advice->points[of[0]];
        point->out = DL_OUT_REFUSED;
        point->why = dl_strdup(err->text);
        status = DL_OK;
    }
    dl_sweep_free(&sweep);
    dl_study_free(&study);
    free(of);
    /* One that cannot run must not hide the others. */
    for (size_t i = 0; status != DL_OK && i < count && count > 1; i++) {
        dl_error one = {0};
        if (simulate(s, &points[i], 1, final, &one) != DL_OK) return status;
        if (i + 1 == count) status = DL_OK;
    }
    return status;
}

/* Those of wanted[count] settings that are new, as far as points are left. */
typedef struct batch {
    size_t *points;
    size_t count;
} batch;

static void want(search *s, batch *b, const size_t *at)
{
    dl_advice *advice = s->advice;
    const size_t before = advice->point_count;
    const size_t left = (size_t)advice->config.max_points;
    if (s->searched + b->count >= left || s->events > COARSE_EVENTS) {
        advice->stopped = true;
        return;
    }
    const size_t number = add_point(s, at);
    dl_advised *point = &advice->points[number];
    if (number < before) return;
    if (total_batch(advice, point->at, s->scenario->batch_per_worker) > advice->config.max_batch ||
        total_batch(advice, point->at, s->scenario->batch_per_worker) == 0) {
        point->out = DL_OUT_BATCH;
        return;
    }
    DL_APPEND(b->points, b->count, "points") = number;
}

static dl_status run_batch(search *s, batch *b, dl_error *err)
{
    const dl_status status = simulate(s, b->points, b->count, false, err);
    free(b->points);
    *b = (batch){0};
    return status;
}

/* --- searching -------------------------------------------------------------------------------- */

static size_t *copy_of(const dl_advice *advice, const size_t *at)
{
    size_t *copy = dl_calloc(advice->axis_count, sizeof *copy, "settings");
    memcpy(copy, at, advice->axis_count * sizeof *copy);
    return copy;
}

/* Every number of workers with every mode, and of everything else that the scenario lists. */
static dl_status search_coarsely(search *s, dl_error *err)
{
    const dl_advice *advice = s->advice;
    size_t *at = dl_calloc(advice->axis_count, sizeof *at, "settings"), rest = 1;
    batch b = {0};
    for (size_t a = FIXED; a < advice->axis_count; a++)
        rest *= advice->axes[a].count;
    for (size_t r = 0; r < rest; r++) {
        for (size_t w = 0; w < advice->axes[WORKERS].count; w++) {
            for (size_t m = 0; m < advice->axes[MODE].count; m++) {
                size_t number = r;
                for (size_t a = 0; a < advice->axis_count; a++) {
                    at[a] = advice->axes[a].start;
                    if (a < FIXED) continue;
                    at[a] = number % advice->axes[a].count;
                    number /= advice->axes[a].count;
                }
                at[WORKERS] = w;
                at[MODE] = m;
                want(s, &b, at);
            }
        }
    }
    free(at);
    return run_batch(s, &b, err);
}

/* What a point is ordered by: the goal; beyond a limit, the speed that would bring it within. */
static double worth(const dl_advised *point)
{
    switch (point->out) {
    case DL_OUT_EFFICIENCY:
    case DL_OUT_DEADLINE:
    case DL_OUT_BUDGET: return point->row.mean.throughput_per_s;
    case DL_OUT_MEMORY: return point->row.memory.has_bytes / point->row.memory.needs_bytes;
    default: return point->score;
    }
}

/* Whether a point counts: it is within the limits, or, relaxed, beyond one that other settings may
 * bring it within. */
static bool counts(const dl_advised *point, bool relaxed)
{
    const bool near = point->out == DL_OUT_EFFICIENCY || point->out == DL_OUT_DEADLINE ||
                      point->out == DL_OUT_BUDGET || point->out == DL_OUT_MEMORY;
    return relaxed ? near && isfinite(worth(point))
                   : point->out == DL_OUT_NOT && isfinite(point->score);
}

/* Changes of one setting of the point, and of overlap and buckets together. */
static void want_neighbours(search *s, batch *b, size_t number)
{
    const dl_advice *advice = s->advice;
    const bool within = advice->points[number].out == DL_OUT_NOT;
    size_t *at = copy_of(advice, advice->points[number].at);
    for (size_t a = 0; a < advice->axis_count; a++) {
        const size_t own = at[a];
        if (own >= advice->axes[a].count) continue;
        for (size_t v = 0; v < advice->axes[a].count; v++) {
            const size_t far = v > own ? v - own : own - v;
            if (v == own || (a == WORKERS && far > WORKERS_NEAR && within)) continue;
            at[a] = v;
            want(s, b, at);
            for (size_t k = 0; a == OVERLAP && k < advice->axes[BUCKET].count; k++) {
                const size_t bucket = at[BUCKET];
                at[BUCKET] = k;
                want(s, b, at);
                at[BUCKET] = bucket;
            }
        }
        at[a] = own;
    }
    free(at);
}

static bool same_choice(const dl_advice *advice, size_t a, size_t b)
{
    const size_t *x = advice->points[a].at, *y = advice->points[b].at;
    bool same = x[WORKERS] == y[WORKERS] && x[MODE] == y[MODE];
    for (size_t e = FIXED; e < advice->axis_count; e++)
        same &= x[e] == y[e];
    return same;
}

enum { FIND_ANY = 0, FIND_FINAL = 1, FIND_RELAXED = 2 };

/* The best points of other numbers of workers or modes, into best[most]. */
static size_t find_best(const dl_advice *advice, size_t *best, size_t most, unsigned how)
{
    size_t count = 0;
    for (size_t p = 0; p < advice->point_count; p++) {
        const dl_advised *point = &advice->points[p];
        if (!counts(point, how & FIND_RELAXED)) continue;
        if (how & FIND_FINAL && !point->is_final) continue;
        size_t same = 0;
        while (same < count && !same_choice(advice, best[same], p))
            same++;
        if (same < count && worth(&advice->points[best[same]]) >= worth(point)) continue;
        if (same < count) { /* the other one leaves its place */
            memmove(&best[same], &best[same + 1], (count - same - 1) * sizeof *best);
            count--;
        }
        size_t place = count;
        while (place > 0 && worth(&advice->points[best[place - 1]]) < worth(point))
            place--;
        if (place == most) continue;
        const size_t moved = (count < most ? count : most - 1) - place;
        memmove(&best[place + 1], &best[place], moved * sizeof *best);
        best[place] = p;
        if (count < most) count++;
    }
    return count;
}

static dl_status climb(search *s, dl_error *err)
{
    size_t best[2 * BEAM];
    double reached[2] = {(double)-INFINITY, (double)-INFINITY};
    dl_status status = DL_OK;
    for (int round = 0; round < ROUNDS && status == DL_OK; round++) {
        const size_t within = find_best(s->advice, best, BEAM, FIND_ANY);
        const size_t beyond = find_best(s->advice, best + within, BEAM, FIND_RELAXED);
        bool gained = round < 2;
        for (int kind = 0; kind < 2; kind++) {
            if ((kind == 0 ? within : beyond) == 0) continue;
            const double now = worth(&s->advice->points[best[kind == 0 ? 0 : within]]);
            gained |= now > reached[kind] * GAINED;
            reached[kind] = fmax(reached[kind], now);
        }
        if (!gained) return DL_OK;
        batch b = {0};
        for (size_t i = 0; i < within + beyond; i++)
            want_neighbours(s, &b, best[i]);
        if (b.count == 0) return DL_OK;
        status = run_batch(s, &b, err);
    }
    return status;
}

/* The point with settings back at their simplest value, as long as it keeps nearly all; its
 * workers and mode too, unless keep_choice. */
static dl_status simplify(search *s, size_t *number, bool keep_choice, dl_error *err)
{
    static const int order[] = {COMPRESS, LAG,    BUCKET, OVERLAP, ACCUMULATE,
                                INTERVAL, SHARDS, WHERE,  MODE,    WORKERS};
    const size_t changed = (sizeof order / sizeof *order) - (keep_choice ? 2 : 0);
    dl_advice *advice = s->advice;
    const double least = (1 - DL_ADVICE_SIMPLER_FRAC) * advice->points[*number].score;
    dl_status status = DL_OK;
    for (size_t o = 0; o < changed && status == DL_OK; o++) {
        const size_t a = (size_t)order[o];
        for (size_t v = 0; v < advice->points[*number].at[a] && status == DL_OK; v++) {
            if (advice->points[*number].at[a] >= advice->axes[a].count) break;
            size_t *at = copy_of(advice, advice->points[*number].at);
            batch b = {0};
            at[a] = v;
            want(s, &b, at);
            status = run_batch(s, &b, err);
            const size_t simpler = add_point(s, at);
            free(at);
            if (advice->points[simpler].out != DL_OUT_NOT ||
                !(advice->points[simpler].score >= least)) {
                continue;
            }
            *number = simpler;
            break;
        }
    }
    return status;
}

/* --- the last points, in full ----------------------------------------------------------------- */

static dl_status simulate_finally(search *s, const size_t *points, size_t count, dl_error *err)
{
    size_t *left = dl_calloc(count, sizeof *left, "points"), left_count = 0;
    for (size_t i = 0; i < count; i++)
        if (!s->advice->points[points[i]].is_final) left[left_count++] = points[i];
    const dl_status status = left_count > 0 ? simulate(s, left, left_count, true, err) : DL_OK;
    free(left);
    return status;
}

/* How many draws are affordable, from the events of the searched points. */
static void plan_draws(search *s)
{
    dl_advice *advice = s->advice;
    const dl_scenario *scenario = s->scenario;
    for (size_t v = 0; v < s->study->variant_count; v++) {
        const dl_variant *variant = &s->study->variants[v];
        advice->varies |= dl_run_varies(&variant->scenario, &variant->costs) ||
                          dl_costs_have_errors(&variant->costs) || variant->scaling.scaled;
    }
    advice->steps = scenario->steps < FINAL_STEPS ? scenario->steps : FINAL_STEPS;
    double most = 1;
    for (size_t i = 0; i < advice->best_count; i++)
        most = fmax(most, (double)advice->points[advice->best[i]].row.mean.events);
    most *= 2 * (double)advice->steps / COARSE_STEPS; /* with the costs as they are, and drawn */
    advice->draws = (int64_t)(FINAL_EVENTS / (3 * DL_ADVICE_BEST * most));
    if (advice->draws > FINAL_DRAWS) advice->draws = FINAL_DRAWS;
    if (advice->draws < FINAL_DRAWS_LEAST) advice->draws = FINAL_DRAWS_LEAST;
    if (!advice->varies) advice->draws = 1;
}

/* Adds the point that differs from the best one in `axis`, if there is one that ran. */
static void want_final(search *s, batch *b, size_t axis, size_t value)
{
    dl_advice *advice = s->advice;
    size_t *at = copy_of(advice, advice->points[advice->best[0]].at);
    at[axis] = value;
    const size_t number = add_point(s, at);
    free(at);
    for (size_t i = 0; i < b->count; i++)
        if (b->points[i] == number) return;
    if (number == advice->best[0]) return;
    if (total_batch(advice, advice->points[number].at, s->scenario->batch_per_worker) == 0) return;
    DL_APPEND(b->points, b->count, "points") = number;
}

/* The points beside the best one that say why it is the best: with each setting at its simplest,
 * with fewer and with most workers; and what the limits cost. */
static dl_status explain_best(search *s, dl_error *err)
{
    static const int simplest[] = {WORKERS, MODE,   WHERE,    INTERVAL,  LAG,
                                   OVERLAP, BUCKET, COMPRESS, ACCUMULATE};
    dl_advice *advice = s->advice;
    const size_t *at = advice->points[advice->best[0]].at;
    batch simpler = {0}, others = {0};
    for (size_t i = 0; i < sizeof simplest / sizeof *simplest; i++) {
        const size_t a = (size_t)simplest[i], own = at[a];
        if (own == 0 || own >= advice->axes[a].count) continue;
        want_final(s, &simpler, a, a == WORKERS ? own - 1 : 0);
    }
    const size_t last = advice->axes[WORKERS].count - 1;
    if (at[WORKERS] != last) want_final(s, &others, WORKERS, last);
    const size_t has_more = others.count;
    dl_status status = simulate_finally(s, simpler.points, simpler.count, err);
    if (status == DL_OK) status = simulate_finally(s, others.points, others.count, err);
    advice->simpler = simpler.points;
    advice->simpler_count = simpler.count;
    advice->more = has_more > 0 ? others.points[0] : SIZE_MAX;
    free(others.points);
    return status;
}

/* Twice the batch, stale gradients, ten times the local steps: each beyond its limit only. */
static dl_status try_beyond(search *s, dl_error *err)
{
    dl_advice *advice = s->advice;
    dl_advice_config *config = &advice->config;
    batch b = {0};
    const int64_t batch_now = advice->points[advice->best[0]].row.point.batch;
    if (!s->scenario->batch_per_worker && 2 * batch_now > config->max_batch) {
        want_final(s, &b, BATCH, add_number(&advice->axes[BATCH], 2 * batch_now));
    } else if (2 * batch_now > config->max_batch) {
        const int workers = advice->points[advice->best[0]].row.point.workers;
        want_final(s, &b, BATCH, add_number(&advice->axes[BATCH], 2 * batch_now / workers));
    }
    if (advice->points[advice->best[0]].row.point.workers > 1) {
        if (!(config->max_staleness > 0))
            want_final(s, &b, MODE, add_value(&advice->axes[MODE], "async"));
        const size_t interval = add_number(&advice->axes[INTERVAL], 10 * config->max_interval);
        const size_t start = advice->axes[INTERVAL].start;
        advice->axes[INTERVAL].start = interval;
        want_final(s, &b, MODE, add_value(&advice->axes[MODE], "average"));
        if (mode_at(advice, advice->points[advice->best[0]].at)->options & 1u << DL_SYNC_INTERVAL)
            want_final(s, &b, INTERVAL, interval);
        advice->axes[INTERVAL].start = start;
    }
    const dl_status status = simulate_finally(s, b.points, b.count, err);
    for (size_t i = 0; i < b.count && status == DL_OK; i++) {
        const dl_advised *point = &advice->points[b.points[i]];
        const bool over = point->out == DL_OUT_BATCH || point->out == DL_OUT_STALENESS ||
                          point->out == DL_OUT_INTERVAL;
        if (over && point->score > BEYOND_GAIN * advice->points[advice->best[0]].score)
            DL_APPEND(advice->beyond, advice->beyond_count, "points") = b.points[i];
    }
    free(b.points);
    return status;
}

static dl_status find_gains(const search *s, const dl_advised *best, dl_gains *gains, dl_error *err)
{
    dl_study study = {0};
    dl_status status =
        dl_study_read_text(&study, s->study->path, best->text, strlen(best->text), err);
    if (status == DL_OK) {
        status = dl_study_read_costs(&study, err);
        study.variants[0].scenario.without = s->scenario->without;
        study.variants[0].scenario.seed = s->scenario->seed;
        dl_row row = best->row;
        row.variant = 0;
        if (status == DL_OK) dl_gains_simulate(gains, &study, &row, 0);
    }
    dl_study_free(&study);
    return status;
}

/* --- the whole -------------------------------------------------------------------------------- */

static dl_status check_study(const search *s, dl_error *err)
{
    static const struct {
        const char *section, *key;
    } refused[] = {{"machine", "gpus"}, {"machine", "placement"}, {"pipeline", "stages"}};
    static const char *const single[] = {"scenario", "noise"};
    const dl_advice_config *config = &s->advice->config;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        if (dl_ini_find(&s->base, refused[i].section, refused[i].key) == NULL) continue;
        return dl_error_set(err, DL_ERR_USAGE,
                            "--advise searches numbers of workers from GPU 0 on: not with [%s] %s",
                            refused[i].section, refused[i].key);
    }
    for (size_t k = 0; k < s->study->key_count; k++) {
        const dl_swept_key *key = &s->study->keys[k];
        if (dl_names_find(key->section, single, 2) < 0) continue;
        return dl_error_set(err, DL_ERR_USAGE,
                            "--advise: [%s] %s has a list, of which none can be "
                            "chosen: give one value",
                            key->section, key->key);
    }
    const bool limited = !isnan(config->deadline_h) || !isnan(config->budget_usd);
    if (limited && isnan(config->samples)) {
        return dl_error_set(err, DL_ERR_USAGE,
                            "%s needs the length of the training: --epochs or --samples",
                            isnan(config->deadline_h) ? "--budget" : "--deadline");
    }
    if (config->goal == DL_GOAL_DEADLINE && isnan(config->deadline_h)) {
        return dl_error_set(err, DL_ERR_USAGE, "--for deadline needs --deadline");
    }
    const bool needs_price = config->goal == DL_GOAL_COST || !isnan(config->budget_usd);
    for (size_t v = 0; v < s->study->variant_count && needs_price; v++) {
        const dl_scenario *scenario = &s->study->variants[v].scenario;
        if (scenario->gpu != NULL && scenario->gpu->machine.price_usd_per_hour.known) continue;
        return dl_error_set(err, DL_ERR_DATA, "%s: %s has no price_usd_per_hour",
                            isnan(config->budget_usd) ? "--for cost" : "--budget",
                            scenario->gpu != NULL ? scenario->gpu->machine.path
                                                  : "a machine without a machine file");
    }
    return DL_OK;
}

static dl_status search_all(search *s, dl_error *err)
{
    dl_advice *advice = s->advice;
    dl_status status = search_coarsely(s, err);
    if (status == DL_OK) status = climb(s, err);
    if (status != DL_OK) return status;
    size_t last[DL_ADVICE_BEST + 1], count = 0;
    advice->best_count = find_best(advice, advice->best, DL_ADVICE_BEST, FIND_ANY);
    if (advice->best_count == 0) return DL_OK;
    for (size_t i = 0; i < advice->best_count && status == DL_OK; i++) {
        size_t number = advice->best[i];
        if (count > 0 && same_choice(advice, number, last[0])) continue;
        last[count] = number;
        status = simplify(s, &last[count++], i > 0, err);
        /* The best one as it was is a rival where it was made simpler by another choice. */
        if (i == 0 && !same_choice(advice, number, last[0])) last[count++] = number;
    }
    plan_draws(s);
    if (status == DL_OK) status = simulate_finally(s, last, count, err);
    if (status != DL_OK) return status;
    advice->best_count = find_best(advice, advice->best, DL_ADVICE_BEST, FIND_FINAL);
    if (advice->best_count == 0) return DL_OK;
    /* Within what does not matter, the simpler one stays the first. */
    for (size_t i = 1; i < advice->best_count; i++) {
        if (advice->best[i] != last[0] ||
            advice->points[last[0]].score <
                (1 - DL_ADVICE_SIMPLER_FRAC) * advice->points[advice->best[0]].score) {
            continue;
        }
        memmove(&advice->best[1], &advice->best[0], i * sizeof *advice->best);
        advice->best[0] = last[0];
    }
    status = explain_best(s, err);
    if (status == DL_OK) status = try_beyond(s, err);
    const dl_advised *more =
        advice->more < advice->point_count ? &advice->points[advice->more] : NULL;
    if (status == DL_OK) {
        status = find_gains(s, &advice->points[advice->best[0]], &advice->gains, err);
    }
    if (status == DL_OK && more != NULL && more->row.rate_count > 0) {
        status = find_gains(s, more, &advice->more_gains, err);
    }
    return status;
}

dl_status dl_advise(dl_advice *advice, const dl_study *study, const dl_advice_config *config,
                    dl_error *err)
{
    dl_advice made = {.config = *config,
                      .name = dl_strdup(study->variants[0].scenario.name),
                      .path = dl_strdup(study->path),
                      .on_gpus = study->variants[0].scenario.gpu != NULL,
                      .more = SIZE_MAX};
    search s = {.advice = &made,
                .study = study,
                .scenario = &study->variants[0].scenario,
                .batch_key =
                    study->variants[0].scenario.batch_per_worker ? "batch_per_worker" : "batch"};
    dl_status status =
        dl_ini_read_text(&s.base, study->path, study->text, strlen(study->text), err);
    if (status == DL_OK) status = check_study(&s, err);
    if (status == DL_OK) {
        set_limits(&s);
        make_axes(&s);
        status = search_all(&s, err);
    }
    dl_ini_free(&s.base);
    bool ran = false;
    for (size_t p = 0; p < made.point_count; p++)
        ran |= !isnan(made.points[p].row.mean.throughput_per_s);
    if (status == DL_OK && !ran) {
        const char *why = made.point_count > 0 ? made.points[0].why != NULL ? made.points[0].why
                                                 : made.points[0].row.error != NULL
                                                     ? made.points[0].row.error
                                                     : "no batch that the workers can share"
                                               : "no points";
        status = dl_error_set(err, DL_ERR_DATA, "--advise: no point can be simulated: %s", why);
    }
    if (status == DL_OK) {
        *advice = made;
    } else {
        dl_advice_free(&made);
    }
    return status;
}

void dl_advice_free(dl_advice *advice)
{
    for (size_t a = 0; a < advice->axis_count; a++) {
        dl_advice_axis *axis = &advice->axes[a];
        for (size_t v = 0; v < axis->count; v++)
            free(axis->values[v]);
        free(axis->values);
        free(axis->section);
        free(axis->key);
    }
    free(advice->axes);
    for (size_t p = 0; p < advice->point_count; p++)
        free_point(&advice->points[p]);
    free(advice->points);
    free(advice->simpler);
    free(advice->beyond);
    free(advice->name);
    free(advice->path);
    *advice = (dl_advice){0};
}

dl_advice_pair dl_advice_compare(const dl_advice *advice, const dl_advised *a, const dl_advised *b)
{
    const size_t count =
        a->row.rate_count < b->row.rate_count ? a->row.rate_count : b->row.rate_count;
    dl_advice_pair pair = {a->score / b->score, (double)NAN, (double)NAN, 0, 0, count, false};
    double *ratios = dl_calloc(count, sizeof *ratios, "ratios");
    for (size_t r = 0; r < count; r++) {
        ratios[r] =
            log(rate_score(advice, a, a->row.rates[r]) / rate_score(advice, b, b->row.rates[r]));
        pair.wins += ratios[r] > 1e-9;
        pair.ties += fabs(ratios[r]) <= 1e-9;
    }
    const size_t losses = count - pair.wins - pair.ties;
    pair.differ = count > 0 && ((double)pair.wins >= 0.975 * (double)count ||
                                (double)losses >= 0.975 * (double)count);
    if (count >= DL_INTERVAL_REPLICATES) {
        gsl_sort(ratios, 1, count);
        pair.low = exp(gsl_stats_quantile_from_sorted_data(ratios, 1, count, 0.025));
        pair.high = exp(gsl_stats_quantile_from_sorted_data(ratios, 1, count, 0.975));
    } else if (count > 1) {
        const double mean = gsl_stats_mean(ratios, 1, count);
        const double spread =
            gsl_cdf_tdist_Pinv(0.975, (double)count - 1) * gsl_stats_sd_m(ratios, 1, count, mean);
        pair.low = exp(mean - spread);
        pair.high = exp(mean + spread);
    }
    free(ratios);
    return pair;
}
