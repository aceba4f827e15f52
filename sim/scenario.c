#include "sim/scenario.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/ini.h"
#include "common/names.h"
#include "common/units.h"

#define STEPS_MAX 10000000
#define REPLICATES_MAX 10000
#define BATCH_MAX 100000000
#define POINTS_MAX 10000
#define LOG_MAX 20000000 /* steps x workers: what one replicate keeps in memory */

/* The values of one key that is swept. */
typedef struct sweep_list {
    const dl_ini_entry *entry; /* NULL: the default */
    int64_t *values;
    size_t count;
} sweep_list;

typedef struct lists {
    sweep_list cores, workers, batch, mode, interval;
} lists;

/* Reads one item of a list; `high` is its largest value, or how many names there are. */
typedef dl_status (*item_fn)(const char *text, int64_t high, int64_t *value, dl_error *err);

static dl_status read_number(const char *text, int64_t high, int64_t *value, dl_error *err)
{
    return dl_parse_int(text, 1, high, value, err);
}

#define CORES_AS_WORKERS 0

static dl_status read_cores(const char *text, int64_t high, int64_t *value, dl_error *err)
{
    if (strcmp(text, "workers") == 0) {
        *value = CORES_AS_WORKERS;
    } else if (strcmp(text, "measured") == 0) {
        *value = DL_CORES_MEASURED;
    } else if (read_number(text, high, value, err) != DL_OK) {
        return dl_error_set(err, DL_ERR_PARSE,
                            "expected 'workers', 'measured' or a whole number from 1 to %lld, "
                            "not '%s'",
                            (long long)high, text);
    }
    return DL_OK;
}

static dl_status read_mode(const char *text, int64_t high, int64_t *value, dl_error *err)
{
    *value = dl_names_find(text, dl_mode_names, (size_t)high);
    if (*value >= 0) return DL_OK;
    char hint[128];
    dl_names_hint(hint, sizeof hint, text, dl_mode_names, (size_t)high);
    return dl_error_set(err, DL_ERR_NAME, "unknown mode '%s'%s", text, hint);
}

static bool contains(const sweep_list *list, int64_t value)
{
    for (size_t i = 0; i < list->count; i++) {
        if (list->values[i] == value) return true;
    }
    return false;
}

static dl_status read_items(const dl_ini *ini, sweep_list *list, item_fn item, int64_t high,
                            dl_error *err)
{
    char **items = NULL;
    size_t count = 0;
    dl_status status = dl_ini_split(ini, list->entry, &items, &count, err);
    if (status != DL_OK) return status;
    list->values = dl_calloc(count, sizeof *list->values, "swept values");
    for (size_t i = 0; i < count && status == DL_OK; i++) {
        dl_error inner = {0};
        int64_t value = 0;
        status = item(items[i], high, &value, &inner);
        if (status == DL_OK && contains(list, value)) {
            status = dl_error_set(&inner, DL_ERR_RANGE, "'%s' stands twice", items[i]);
        }
        if (status != DL_OK) dl_ini_error(ini, list->entry, status, err, "%s", inner.text);
        list->values[list->count++] = value;
    }
    dl_ini_free_list(items, count);
    return status;
}

/* A key that is missing takes `fallback`, or is an error if that is negative. */
static dl_status read_list(const dl_ini *ini, const char *section, const char *key, item_fn item,
                           int64_t high, int64_t fallback, sweep_list *list, dl_error *err)
{
    list->entry = dl_ini_find(ini, section, key);
    if (list->entry != NULL) return read_items(ini, list, item, high, err);
    if (fallback < 0) {
        return dl_error_set_at(err, DL_ERR_DATA, ini->path, 0, "[%s] %s is missing", section, key);
    }
    list->values = dl_calloc(1, sizeof *list->values, "swept values");
    list->values[0] = fallback;
    list->count = 1;
    return DL_OK;
}

static dl_status read_batch(dl_scenario *scenario, const dl_ini *ini, sweep_list *list,
                            dl_error *err)
{
    const dl_ini_entry *total = dl_ini_find(ini, "workload", "batch");
    const dl_ini_entry *each = dl_ini_find(ini, "workload", "batch_per_worker");
    if (total != NULL && each != NULL) {
        return dl_ini_error(ini, each, DL_ERR_DATA, err, "batch is given too: only one of both");
    }
    scenario->batch_per_worker = each != NULL;
    return read_list(ini, "workload", each != NULL ? "batch_per_worker" : "batch", read_number,
                     BATCH_MAX, -1, list, err);
}

static dl_status read_lists(dl_scenario *scenario, const dl_ini *ini, lists *all, dl_error *err)
{
    dl_status status;
    if ((status = read_list(ini, "machine", "cores", read_cores, DL_WORKERS_MAX, -1, &all->cores,
                            err)) ||
        (status = read_list(ini, "machine", "workers", read_number, DL_WORKERS_MAX, -1,
                            &all->workers, err)) ||
        (status = read_batch(scenario, ini, &all->batch, err)) ||
        (status = read_list(ini, "sync", "mode", read_mode, DL_MODES, 0, &all->mode, err))) {
        return status;
    }
    return read_list(ini, "sync", "interval", read_number, STEPS_MAX, 1, &all->interval, err);
}

/* "cores = 2, workers" names one machine twice where there are 2 workers. */
static bool has_point(const dl_scenario *scenario, const dl_point *point)
{
    for (size_t i = 0; i < scenario->point_count; i++) {
        const dl_point *p = &scenario->points[i];
        if (p->cores == point->cores && p->workers == point->workers && p->batch == point->batch &&
            p->mode == point->mode && p->interval == point->interval) {
            return true;
        }
    }
    return false;
}

static dl_status add_point(dl_scenario *scenario, const dl_ini *ini, const lists *all,
                           const dl_point *point, dl_error *err)
{
    char text[160];
    if (has_point(scenario, point)) return DL_OK;
    dl_point_text(text, sizeof text, point);
    if (point->batch % point->workers != 0) {
        return dl_ini_error(ini, all->batch.entry, DL_ERR_RANGE, err,
                            "%d workers cannot share the batch evenly (point: %s)", point->workers,
                            text);
    }
    if ((scenario->steps + point->interval) * point->workers > LOG_MAX) {
        return dl_error_set_at(err, DL_ERR_RANGE, ini->path, 0,
                               "steps times workers exceeds %d (point: %s)", LOG_MAX, text);
    }
    if (scenario->point_count == POINTS_MAX) {
        return dl_error_set_at(err, DL_ERR_RANGE, ini->path, 0, "more than %d points", POINTS_MAX);
    }
    scenario->points =
        dl_realloc(scenario->points, scenario->point_count + 1, sizeof(dl_point), "points");
    scenario->points[scenario->point_count++] = *point;
    return DL_OK;
}

/* The points of one mode: all intervals, or one point if it has none. */
static dl_status add_intervals(dl_scenario *scenario, const dl_ini *ini, const lists *all,
                               dl_point point, dl_error *err)
{
    size_t count = point.mode->has_interval ? all->interval.count : 1;
    dl_status status = DL_OK;
    for (size_t i = 0; i < count && status == DL_OK; i++) {
        point.interval = point.mode->has_interval ? (int)all->interval.values[i] : 1;
        status = add_point(scenario, ini, all, &point, err);
    }
    return status;
}

static dl_status add_points(dl_scenario *scenario, const dl_ini *ini, const lists *all,
                            dl_error *err)
{
    size_t rest = all->mode.count * all->batch.count * all->workers.count;
    dl_status status = DL_OK;
    for (size_t i = 0; i < rest * all->cores.count && status == DL_OK; i++) {
        size_t mode = i % all->mode.count, batch = i / all->mode.count % all->batch.count;
        size_t worker = i / (all->mode.count * all->batch.count) % all->workers.count;
        dl_point point = {.workers = (int)all->workers.values[worker],
                          .cores = (int)all->cores.values[i / rest],
                          .batch = all->batch.values[batch],
                          .mode = dl_modes[all->mode.values[mode]]};
        if (point.cores == CORES_AS_WORKERS) point.cores = point.workers;
        if (scenario->batch_per_worker) point.batch *= point.workers;
        status = add_intervals(scenario, ini, all, point, err);
    }
    return status;
}

static dl_status read_slow_item(const char *item, dl_slow_worker *slow, dl_error *err)
{
    const char *colon = strchr(item, ':');
    if (colon == NULL) return dl_error_set(err, DL_ERR_PARSE, "expected worker:factor");
    int64_t worker = 0;
    char *number = dl_format("%.*s", (int)(colon - item), item);
    dl_status status = dl_parse_int(number, 0, DL_WORKERS_MAX - 1, &worker, err);
    free(number);
    slow->worker = (int)worker;
    if (status != DL_OK) return status;
    return dl_parse_double(colon + 1, 1e-6, 1e6, &slow->factor, err);
}

static dl_status read_slow(dl_scenario *scenario, const dl_ini *ini, const lists *all,
                           dl_error *err)
{
    const dl_ini_entry *entry = dl_ini_find(ini, "noise", "slow");
    if (entry == NULL) return DL_OK;
    char **items = NULL;
    dl_status status = dl_ini_split(ini, entry, &items, &scenario->slow_count, err);
    if (status != DL_OK) return status;
    scenario->slow = dl_calloc(scenario->slow_count, sizeof *scenario->slow, "slow workers");
    int64_t most = 0;
    for (size_t i = 0; i < all->workers.count; i++) {
        if (all->workers.values[i] > most) most = all->workers.values[i];
    }
    for (size_t i = 0; i < scenario->slow_count && status == DL_OK; i++) {
        dl_error inner = {0};
        status = read_slow_item(items[i], &scenario->slow[i], &inner);
        if (status == DL_OK && scenario->slow[i].worker >= most) {
            status =
                dl_error_set(&inner, DL_ERR_RANGE, "no point has a worker %d (they count from 0)",
                             scenario->slow[i].worker);
        }
        for (size_t j = 0; j < i && status == DL_OK; j++) {
            if (scenario->slow[j].worker != scenario->slow[i].worker) continue;
            status = dl_error_set(&inner, DL_ERR_RANGE, "worker %d stands twice",
                                  scenario->slow[i].worker);
        }
        if (status != DL_OK) dl_ini_error(ini, entry, status, err, "%s", inner.text);
    }
    dl_ini_free_list(items, scenario->slow_count);
    return status;
}

static dl_status read_noise(dl_scenario *scenario, const dl_ini *ini, dl_error *err)
{
    static const int none = DL_NOISE_NONE;
    int kind = DL_NOISE_NONE;
    dl_status status =
        dl_ini_get_choice(ini, "noise", "kind", dl_noise_names, DL_NOISE_KINDS, &none, &kind, err);
    if (status != DL_OK) return status;
    scenario->noise = (dl_noise_kind)kind;
    if (kind == DL_NOISE_LOGNORMAL || kind == DL_NOISE_GAMMA) {
        return dl_ini_get_double(ini, "noise", "sigma", 1e-6, 100, NULL, &scenario->sigma, err);
    }
    const dl_ini_entry *sigma = dl_ini_find(ini, "noise", "sigma");
    if (sigma == NULL) return DL_OK;
    return dl_ini_error(ini, sigma, DL_ERR_DATA, err, "noise of kind %s takes no sigma",
                        dl_noise_names[kind]);
}

/* `path` as seen from the folder of `file`. */
static char *beside(const char *file, const char *path)
{
    const char *slash = strrchr(file, '/');
    if (path[0] == '/' || slash == NULL) return dl_strdup(path);
    return dl_format("%.*s%s", (int)(slash - file + 1), file, path);
}

static dl_status read_texts(dl_scenario *scenario, const dl_ini *ini, dl_error *err)
{
    const char *name = NULL, *costs = NULL, *measured = NULL;
    dl_status status;
    if ((status = dl_ini_get_string(ini, "scenario", "name", ini->path, &name, err)) ||
        (status = dl_ini_get_string(ini, "workload", "costs", NULL, &costs, err)) ||
        (status = dl_ini_get_string(ini, "measured", "file", "", &measured, err))) {
        return status;
    }
    scenario->path = dl_strdup(ini->path);
    scenario->name = dl_strdup(name);
    scenario->costs_path = beside(ini->path, costs);
    if (measured[0] != '\0') scenario->measured_path = beside(ini->path, measured);
    return DL_OK;
}

static dl_status read_settings(dl_scenario *scenario, const dl_ini *ini, dl_error *err)
{
    static const char *const no_yes[] = {"no", "yes"}, *const places[] = {"cpu"};
    static const int64_t default_steps = 200, one = 1;
    static const int first = 0;
    int average_state = 0, place = 0;
    int64_t server_threads = 0;
    dl_status status;
    if ((status = dl_ini_get_int(ini, "scenario", "steps", 1, STEPS_MAX, &default_steps,
                                 &scenario->steps, err)) ||
        (status = dl_ini_get_int(ini, "scenario", "replicates", 1, REPLICATES_MAX, &one,
                                 &scenario->replicates, err)) ||
        (status =
             dl_ini_get_int(ini, "scenario", "seed", 0, INT64_MAX, &one, &scenario->seed, err)) ||
        (status = dl_ini_get_choice(ini, "sync", "average_state", no_yes, 2, &first, &average_state,
                                    err)) ||
        (status = dl_ini_get_choice(ini, "sync", "where", places, 1, &first, &place, err)) ||
        (status = dl_ini_get_int(ini, "sync", "server_threads", 1, DL_WORKERS_MAX, &one,
                                 &server_threads, err))) {
        return status;
    }
    scenario->average_state = average_state == 1;
    scenario->server_threads = (int)server_threads;
    return DL_OK;
}

static dl_status check_names(const dl_ini *ini, dl_error *err)
{
    static const char *const scenario[] = {"name", "steps", "seed", "replicates", NULL};
    static const char *const machine[] = {"cores", "workers", NULL};
    static const char *const workload[] = {"costs", "batch", "batch_per_worker", NULL};
    static const char *const sync[] = {"mode",           "interval", "average_state",
                                       "server_threads", "where",    NULL};
    static const char *const noise[] = {"kind", "sigma", "slow", NULL};
    static const char *const measured[] = {"file", NULL};
    static const dl_ini_section_schema schema[] = {
        {"scenario", scenario}, {"machine", machine}, {"workload", workload},
        {"sync", sync},         {"noise", noise},     {"measured", measured},
    };
    return dl_ini_check(ini, schema, sizeof schema / sizeof *schema, err);
}

static dl_status from_ini(dl_scenario *scenario, const dl_ini *ini, dl_error *err)
{
    dl_scenario parsed = {0};
    lists all = {0};
    dl_status status;
    if ((status = check_names(ini, err)) || (status = read_texts(&parsed, ini, err)) ||
        (status = read_settings(&parsed, ini, err)) || (status = read_noise(&parsed, ini, err)) ||
        (status = read_lists(&parsed, ini, &all, err)) ||
        (status = read_slow(&parsed, ini, &all, err)) ||
        (status = add_points(&parsed, ini, &all, err))) {
        dl_scenario_free(&parsed);
    } else {
        *scenario = parsed;
    }
    free(all.cores.values);
    free(all.workers.values);
    free(all.batch.values);
    free(all.mode.values);
    free(all.interval.values);
    return status;
}

dl_status dl_scenario_read(dl_scenario *scenario, const char *path, dl_error *err)
{
    dl_ini ini = {0};
    dl_status status = dl_ini_read(&ini, path, err);
    if (status != DL_OK) return status;
    status = from_ini(scenario, &ini, err);
    dl_ini_free(&ini);
    return status;
}

dl_status dl_scenario_read_text(dl_scenario *scenario, const char *name, const char *text,
                                size_t bytes, dl_error *err)
{
    dl_ini ini = {0};
    dl_status status = dl_ini_read_text(&ini, name, text, bytes, err);
    if (status != DL_OK) return status;
    status = from_ini(scenario, &ini, err);
    dl_ini_free(&ini);
    return status;
}

dl_status dl_scenario_set_measured_cores(dl_scenario *scenario, int64_t cores, dl_error *err)
{
    size_t kept = 0, count = scenario->point_count;
    for (size_t i = 0; i < count; i++) {
        if (scenario->points[i].cores != DL_CORES_MEASURED || cores > 0) continue;
        return dl_error_set_at(err, DL_ERR_DATA, scenario->path, 0,
                               "[machine] cores = measured, but %s lacks [costs] cores",
                               scenario->costs_path);
    }
    scenario->point_count = 0;
    for (size_t i = 0; i < count; i++) {
        dl_point point = scenario->points[i];
        if (point.cores == DL_CORES_MEASURED) point.cores = (int)cores;
        if (has_point(scenario, &point)) continue;
        scenario->points[kept++] = point;
        scenario->point_count = kept;
    }
    return DL_OK;
}

void dl_scenario_free(dl_scenario *scenario)
{
    free(scenario->path);
    free(scenario->name);
    free(scenario->costs_path);
    free(scenario->measured_path);
    free(scenario->slow);
    free(scenario->points);
    *scenario = (dl_scenario){0};
}

void dl_scenario_slow(const dl_scenario *scenario, int workers, double *slow)
{
    for (int w = 0; w < workers; w++)
        slow[w] = 1;
    for (size_t i = 0; i < scenario->slow_count; i++) {
        if (scenario->slow[i].worker < workers) {
            slow[scenario->slow[i].worker] = scenario->slow[i].factor;
        }
    }
}

const char *dl_point_text(char *text, size_t bytes, const dl_point *point)
{
    int length = snprintf(text, bytes, "cores %d, workers %d, batch %lld, %s", point->cores,
                          point->workers, (long long)point->batch, point->mode->name);
    if (point->mode->has_interval && length > 0 && (size_t)length < bytes) {
        snprintf(text + length, bytes - (size_t)length, ", interval %d", point->interval);
    }
    return text;
}
