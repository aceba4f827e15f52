#include "calibrate/table/table_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/alloc.h"
#include "common/csv.h"
#include "common/names.h"
#include "sim/platform/placement.h"
#include "sim/report/measured.h"
#include "sim/scenario/study.h"

static dl_status row_error(const dl_csv *csv, size_t row, dl_status code, dl_error *err,
                           const char *text)
{
    return dl_error_set_at(err, code, csv->path, csv->lines[row], "%s", text);
}

#define COLUMNS_MAX 64

/* Accepts the columns of measured rows and the column placement; requires
 * workers or placement, and batch unless `batch` > 0 is that of all rows. */
static dl_status check_columns(const dl_csv *csv, int64_t batch, dl_error *err)
{
    const char *names[COLUMNS_MAX] = {"placement"};
    size_t count = 1;
    for (; dl_measured_columns[count - 1] != NULL; count++) {
        DL_ASSERT(count < COLUMNS_MAX, "%zu columns", count);
        names[count] = dl_measured_columns[count - 1];
    }
    for (size_t c = 0; c < csv->columns; c++) {
        if (dl_names_find(csv->names[c], names, count) >= 0) continue;
        char hint[512];
        dl_names_hint(hint, sizeof hint, csv->names[c], names, count);
        return dl_error_set_at(err, DL_ERR_NAME, csv->path, 0, "unknown column '%s'%s",
                               csv->names[c], hint);
    }
    const bool tells_workers =
        dl_csv_column(csv, "workers") >= 0 || dl_csv_column(csv, "placement") >= 0;
    const bool tells_batch = dl_csv_column(csv, "batch") >= 0 || batch > 0;
    if (tells_workers && tells_batch) return DL_OK;
    return dl_error_set_at(err, DL_ERR_DATA, csv->path, 0,
                           "a row needs workers (or gpus) or placement, batch (of all workers; or "
                           "one --batch-per-worker or --batch for all rows), and throughput_per_s "
                           "(or samples/s) or step_s");
}

/* Reads the GPUs of a row with a placement. */
static dl_status read_placement(const dl_csv *csv, size_t row, const dl_scenario *scenario,
                                dl_table_row *to, dl_error *err)
{
    const char *text = dl_csv_text_in(csv, row, "placement");
    if (text[0] == '\0') return DL_OK;
    if (scenario->gpu == NULL) {
        return row_error(csv, row, DL_ERR_DATA, err, "a placement needs [machine] file");
    }
    dl_error inner = {0};
    const dl_status status =
        dl_placement_gpus(text, &scenario->gpu->machine, &to->gpus, &to->gpu_count, &inner);
    return status == DL_OK ? DL_OK : row_error(csv, row, status, err, inner.text);
}

/* Keys by which a row selects its point. */
typedef struct row_keys {
    double cores, workers, batch; /* NaN: not given */
    double option[DL_SYNC_SWEPT];
    const char *sync; /* "": not given */
} row_keys;

static dl_status read_keys(const dl_csv *csv, size_t row, const dl_scenario *scenario,
                           const dl_table_row *to, row_keys *keys, dl_error *err)
{
    keys->sync = dl_csv_text_in(csv, row, "sync");
    dl_status status;
    if ((status = dl_csv_number_in(csv, row, "cores", &keys->cores, err)) ||
        (status = dl_csv_number_in(csv, row, "workers", &keys->workers, err)) ||
        (status = dl_csv_number_in(csv, row, "batch", &keys->batch, err))) {
        return status;
    }
    for (int o = 0; o < DL_SYNC_SWEPT && status == DL_OK; o++)
        status = dl_csv_number_in(csv, row, dl_sync_options[o].name, &keys->option[o], err);
    if (status != DL_OK) return status;
    if (to->gpus != NULL && isnan(keys->workers)) keys->workers = to->gpu_count;
    if (to->gpus != NULL && keys->workers != to->gpu_count) {
        return row_error(csv, row, DL_ERR_DATA, err, "workers and placement differ");
    }
    if (dl_csv_column(csv, "batch") < 0)
        keys->batch = (double)to->batch * (scenario->batch_per_worker ? keys->workers : 1);
    const bool whole = keys->workers == floor(keys->workers) && keys->batch == floor(keys->batch);
    if (!whole || !(keys->workers >= 1) || !(keys->batch <= INT32_MAX)) {
        return row_error(csv, row, DL_ERR_RANGE, err, "workers and batch must be whole numbers");
    }
    if (keys->batch < keys->workers) {
        return row_error(csv, row, DL_ERR_RANGE, err, "fewer samples than workers");
    }
    return DL_OK;
}

/* Keys other than workers and batch: sync, cores, then the options of sync. */
enum { KIND_SYNC, KIND_CORES, KIND_OPTION, KIND_KEYS = KIND_OPTION + DL_SYNC_SWEPT };

static const char *kind_key_name(int key)
{
    return key == KIND_SYNC    ? "sync"
           : key == KIND_CORES ? "cores"
                               : dl_sync_options[key - KIND_OPTION].name;
}

static bool fits_key(const dl_point *point, const row_keys *keys, int key)
{
    if (key == KIND_SYNC) return keys->sync[0] == '\0' || dl_point_mode_is(point, keys->sync);
    if (key == KIND_CORES) return isnan(keys->cores) || keys->cores == point->cores;
    const int o = key - KIND_OPTION;
    if (isnan(keys->option[o])) return true;
    return dl_mode_takes(point->mode, o) && keys->option[o] == point->option[o];
}

/* Returns the first key that the point does not match; KIND_KEYS if it matches all. */
static int first_unlike(const dl_point *point, const row_keys *keys)
{
    int key = 0;
    while (key < KIND_KEYS && fits_key(point, keys, key))
        key++;
    return key;
}

static bool is_like(const dl_point *point, const row_keys *keys)
{
    return first_unlike(point, keys) == KIND_KEYS;
}

/* Returns whether two points differ only in workers and batch. */
static bool same_kind(const dl_point *a, const dl_point *b)
{
    if (a->cores != b->cores || a->mode != b->mode) return false;
    for (int o = 0; o < DL_SYNC_SWEPT; o++) {
        if (dl_mode_takes(a->mode, o) && a->option[o] != b->option[o]) return false;
    }
    return true;
}

/* Formats the value of a point's key into text[32]; "-": it has none. */
static const char *kind_text(char text[32], const dl_point *point, int key)
{
    if (key == KIND_SYNC) return dl_point_mode(point);
    const bool takes = key == KIND_CORES || dl_mode_takes(point->mode, key - KIND_OPTION);
    snprintf(text, 32, "%.9g", key == KIND_CORES ? point->cores : point->option[key - KIND_OPTION]);
    return takes ? text : "-";
}

/* Returns an error that names a key that no point matches, and the values of this key in the points
 * that match the most keys. */
static dl_status no_such_point(const dl_csv *csv, size_t row, const dl_scenario *scenario,
                               const row_keys *keys, dl_error *err)
{
    int key = 0;
    char *has = NULL, text[32], other[32];
    for (size_t p = 0; p < scenario->point_count; p++) {
        const int own = first_unlike(&scenario->points[p], keys);
        if (own > key) key = own;
    }
    for (size_t p = 0; p < scenario->point_count; p++) {
        const dl_point *point = &scenario->points[p];
        const char *value = kind_text(text, point, key);
        bool is_new = first_unlike(point, keys) == key;
        for (size_t q = 0; q < p && is_new; q++)
            is_new = first_unlike(&scenario->points[q], keys) != key ||
                     strcmp(kind_text(other, &scenario->points[q], key), value) != 0;
        if (is_new) dl_join(&has, ", ", value);
    }
    const char *name = kind_key_name(key);
    const dl_status status = dl_error_set_at(
        err, DL_ERR_NAME, csv->path, csv->lines[row],
        "no point of the scenario has %s = %s, but %s: --mode and --set give others", name,
        dl_csv_text_in(csv, row, name), has);
    free(has);
    return status;
}

/* Returns the first key by which two points differ; NULL if none. */
static const char *key_between(const dl_point *a, const dl_point *b)
{
    char of_a[32], of_b[32];
    for (int key = 0; key < KIND_KEYS; key++)
        if (strcmp(kind_text(of_a, a, key), kind_text(of_b, b, key)) != 0)
            return kind_key_name(key);
    return NULL;
}

/* Finds the scenario's point that matches the row, preferring a point with the row's number of
 * workers, because cores may depend on the workers. */
static dl_status find_kind(const dl_csv *csv, size_t row, const dl_scenario *scenario,
                           const row_keys *keys, dl_point *kind, dl_error *err)
{
    bool found = false, same_workers = false;
    for (int pass = 0; pass < 2 && !found; pass++) {
        same_workers = pass == 0;
        for (size_t p = 0; p < scenario->point_count; p++) {
            const dl_point *point = &scenario->points[p];
            if (same_workers && point->workers != (int)keys->workers) continue;
            if (!is_like(point, keys)) continue;
            if (found && !same_kind(kind, point)) {
                return dl_error_set_at(err, DL_ERR_DATA, csv->path, csv->lines[row],
                                       "several points of the scenario have these keys: give "
                                       "also %s",
                                       key_between(kind, point));
            }
            *kind = *point;
            found = true;
        }
    }
    if (found) return DL_OK;
    return no_such_point(csv, row, scenario, keys, err);
}

static dl_status check_workers(const dl_csv *csv, size_t row, const dl_scenario *scenario,
                               const dl_point *point, dl_error *err)
{
    const int most = point->gpus != NULL     ? point->workers
                     : scenario->gpu != NULL ? dl_gpu_options_count(scenario->gpu)
                                             : (int)DL_WORKERS_MAX;
    if (point->workers > most) {
        return dl_error_set_at(err, DL_ERR_RANGE, csv->path, csv->lines[row],
                               "%d workers, but at most %d can be simulated here", point->workers,
                               most);
    }
    if ((point->mode->once && point->option[DL_SYNC_K] > point->workers) ||
        (dl_mode_takes(point->mode, DL_SYNC_N) && point->option[DL_SYNC_N] > point->workers)) {
        return row_error(csv, row, DL_ERR_RANGE, err, "k or n is more than the workers");
    }
    return DL_OK;
}

static dl_status find_point(const dl_csv *csv, size_t row, const dl_scenario *scenario,
                            dl_table_row *to, dl_error *err)
{
    row_keys keys = {0};
    dl_status status;
    if ((status = read_placement(csv, row, scenario, to, err)) ||
        (status = read_keys(csv, row, scenario, to, &keys, err)) ||
        (status = find_kind(csv, row, scenario, &keys, &to->point, err))) {
        return status;
    }
    to->point.gpus = to->gpus;
    to->batch = (int64_t)keys.batch;
    to->point.workers = (int)fmin(keys.workers, INT32_MAX);
    const int64_t parts = to->point.workers * (int64_t)to->point.option[DL_SYNC_ACCUMULATE];
    to->point.batch = (to->batch + parts - 1) / parts * parts;
    return check_workers(csv, row, scenario, &to->point, err);
}

static dl_status read_value(const dl_csv *csv, size_t row, dl_table_row *to, dl_error *err)
{
    to->throughput_per_s = (double)NAN;
    to->failed = strcmp(dl_csv_text_in(csv, row, "throughput_per_s"), "error") == 0 ||
                 strcmp(dl_csv_text_in(csv, row, "step_s"), "error") == 0;
    if (to->failed) return DL_OK;
    double per_s = 0, step_s = 0;
    dl_status status = dl_csv_number_in(csv, row, "throughput_per_s", &per_s, err);
    if (status == DL_OK) status = dl_measured_seconds(csv, row, "step_s", &step_s, err);
    if (status != DL_OK) return status;
    if (isnan(per_s)) per_s = (double)to->batch / step_s;
    if (isnan(per_s)) {
        return row_error(csv, row, DL_ERR_DATA, err,
                         "neither throughput_per_s nor step_s is given");
    }
    if (!(per_s > 0) || isinf(per_s)) {
        return row_error(csv, row, DL_ERR_RANGE, err,
                         "throughput_per_s and step_s must be greater than 0");
    }
    to->throughput_per_s = per_s;
    return DL_OK;
}

static dl_status read_row(const dl_csv *csv, size_t row, const dl_scenario *scenario,
                          dl_table_row *to, dl_error *err)
{
    to->line = csv->lines[row];
    to->source = dl_strdup(dl_csv_text_in(csv, row, "source"));
    dl_status status = find_point(csv, row, scenario, to, err);
    return status == DL_OK ? read_value(csv, row, to, err) : status;
}

static bool same_gpus(const dl_point *a, const dl_point *b)
{
    if (a->gpus == NULL || b->gpus == NULL) return a->gpus == b->gpus;
    return memcmp(a->gpus, b->gpus, (size_t)a->workers * sizeof *a->gpus) == 0;
}

static bool same_point(const dl_point *a, const dl_point *b)
{
    return a->workers == b->workers && a->batch == b->batch && same_kind(a, b) && same_gpus(a, b);
}

/* Replaces the scenario's points by the rows' points. */
static void set_points(dl_table_rows *rows, dl_scenario *scenario)
{
    dl_point *points = dl_calloc(rows->used, sizeof *points, "points of rows");
    size_t count = 0;
    for (size_t i = 0; i < rows->count; i++) {
        dl_table_row *row = &rows->rows[i];
        if (row->failed) continue;
        row->at = 0;
        while (row->at < count && !same_point(&points[row->at], &row->point))
            row->at++;
        if (row->at == count) points[count++] = row->point;
    }
    free(scenario->points);
    scenario->points = points;
    scenario->point_count = count;
}

/* Columns of settings that a scenario has once. */
static const char *const settings[] = {"model", "precision", "where", "compress", "host_memory"};

/* Refuses rows of several settings, which would be fitted as one. */
static dl_status check_settings(const dl_csv *csv, const char *use, dl_error *err)
{
    for (size_t s = 0; s < DL_LENGTH(settings); s++) {
        const char *first = "";
        for (size_t i = 0; i < csv->rows; i++) {
            const char *own = dl_csv_text_in(csv, i, settings[s]);
            if (use != NULL && strcmp(use, dl_csv_text_in(csv, i, "use")) != 0) continue;
            if (own[0] == '\0' || strcasecmp(own, first) == 0) continue;
            if (first[0] != '\0')
                return dl_error_set_at(err, DL_ERR_DATA, csv->path, csv->lines[i],
                                       "%s is %s, in rows before %s: fit the rows of each alone, "
                                       "from a table each or by a column use and --use",
                                       settings[s], own, first);
            first = own;
        }
    }
    return DL_OK;
}

/* Refuses a column batch that seems to be that of one worker: the scenario's, whatever the number
 * of workers. */
static dl_status check_batches(const dl_table_rows *rows, const dl_csv *csv,
                               const dl_scenario *scenario, int64_t batch, dl_error *err)
{
    int most = 1;
    if (!scenario->batch_per_worker || batch == 0 || dl_csv_column(csv, "batch") < 0) return DL_OK;
    for (size_t i = 0; i < rows->count; i++) {
        if (rows->rows[i].batch != batch) return DL_OK;
        if (rows->rows[i].point.workers > most) most = rows->rows[i].point.workers;
    }
    if (most == 1) return DL_OK;
    return dl_error_set_at(err, DL_ERR_DATA, csv->path, 0,
                           "the column batch, of all workers together, has the batch of one "
                           "worker, %lld, also for %d: name it batch_per_gpu or, if all workers "
                           "share that batch, give --batch %lld",
                           (long long)batch, most, (long long)batch);
}

static dl_status read_all(dl_table_rows *rows, dl_csv *csv, const char *use,
                          const dl_scenario *scenario, dl_error *err)
{
    const int64_t batch = dl_scenario_batch(scenario);
    dl_status status = check_columns(csv, batch, err);
    if (status == DL_OK) status = check_settings(csv, use, err);
    for (size_t i = 0; i < csv->rows && status == DL_OK; i++) {
        if (use != NULL && strcmp(use, dl_csv_text_in(csv, i, "use")) != 0) continue;
        dl_table_row *row = &rows->rows[rows->count++];
        row->batch = batch;
        status = read_row(csv, i, scenario, row, err);
        rows->used += !row->failed;
    }
    if (status == DL_OK) status = check_batches(rows, csv, scenario, batch, err);
    if (status == DL_OK && rows->used == 0) {
        status = dl_error_set_at(
            err, DL_ERR_DATA, csv->path, 0, "no row%s%s%s has a measured value",
            use != NULL ? " of use '" : "", use != NULL ? use : "", use != NULL ? "'" : "");
    }
    return status;
}

/* Takes the study's variant, and its costs if requested. Several variants are only accepted if they
 * come from a list of placements; for other lists dl_scenario_read reports the error. */
static dl_status take_variant(dl_study *study, dl_scenario *scenario, dl_costs *costs,
                              const char *path, const char *text, dl_error *err)
{
    dl_variant *variant = &study->variants[0];
    const bool places = study->key_count == 1 && strcmp(study->keys[0].key, "placement") == 0;
    if (study->key_count > 0 && !places)
        return text != NULL ? dl_scenario_read_text(scenario, path, text, strlen(text), err)
                            : dl_scenario_read(scenario, path, err);
    const dl_status status = costs != NULL ? dl_variant_read_costs(study, variant, err) : DL_OK;
    if (status != DL_OK) return status;
    *scenario = variant->scenario;
    variant->scenario = (dl_scenario){0};
    if (costs == NULL) return DL_OK;
    *costs = variant->costs;
    variant->costs = (dl_costs){0};
    if (!variant->scaling.scaled) return DL_OK;
    free(costs->device); /* the costs no longer belong to that device */
    costs->device = dl_strdup(dl_scenario_first_gpu(scenario)->name);
    return DL_OK;
}

dl_status dl_table_scenario_read(dl_scenario *scenario, dl_costs *costs, const char *path,
                                 const char *text, dl_error *err)
{
    DL_SCOPED(dl_study) study = {0};
    dl_status status = text != NULL ? dl_study_read_text(&study, path, text, strlen(text), err)
                                    : dl_study_read(&study, path, err);
    if (status != DL_OK) return status;
    status = take_variant(&study, scenario, costs, path, text, err);
    if (status != DL_OK) return status;
    scenario->noise = DL_NOISE_NONE;
    scenario->sigma = 0;
    if (scenario->gpu != NULL) {
        scenario->gpu->input_varies = false;
        /* The file contains the costs of averaging in host memory, or they are sought and then
         * written to the file. */
        if (scenario->gpu->where == DL_WHERE_AUTO) scenario->gpu->where = DL_WHERE_CPU;
    }
    return DL_OK;
}

dl_status dl_table_rows_read(dl_table_rows *rows, const char *path, const char *use,
                             dl_scenario *scenario, dl_error *err)
{
    dl_csv csv = {0};
    dl_status status = dl_measured_table_read(&csv, path, NULL, err);
    if (status != DL_OK) return status;
    dl_table_rows read = {.path = dl_strdup(path)};
    read.rows = dl_calloc(csv.rows, sizeof *read.rows, "table rows");
    status = read_all(&read, &csv, use, scenario, err);
    dl_csv_free(&csv);
    if (status != DL_OK) {
        dl_table_rows_free(&read);
        return status;
    }
    set_points(&read, scenario);
    *rows = read;
    return DL_OK;
}

void dl_table_rows_free(dl_table_rows *rows)
{
    for (size_t i = 0; i < rows->count; i++) {
        free(rows->rows[i].source);
        free(rows->rows[i].gpus);
    }
    free(rows->rows);
    free(rows->path);
    *rows = (dl_table_rows){0};
}
