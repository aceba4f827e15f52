#include "sim/report/measured.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/alloc.h"
#include "common/names.h"
#include "common/quantity.h"
#include "common/units.h"
#include "sim/statistics.h"
#include "sim/traced.h"

enum {
    KEY_CORES,
    KEY_WORKERS,
    KEY_BATCH,
    KEY_SYNC,
    KEY_OPTION,
    KEYS = KEY_OPTION + DL_SYNC_SWEPT,
    SETTINGS = KEYS,
    MODEL = SETTINGS,
    PRECISION,
    GPU_COUNT,
    WHERE,
    COMPRESS,
    HOST_MEMORY,
    SOURCE,
    USE,
    NOTE,
    BY_WORKER,
    COUNTS,
    QUANTILES,
    UPLOADS,
    STEPS = UPLOADS + 5, /* four counts of uploads by outcome, and merges */
    SEED,
    VALUES,
    COLUMNS = VALUES + DL_MEASURE_COUNT
};

const char *const dl_measured_use_names[DL_USE_COUNT + 1] = {"unseen", "fitted", "contradiction",
                                                             "error",  "traced", NULL};

#define NO_POINT SIZE_MAX

typedef struct measured_row {
    size_t point; /* index among all points of the study */
    bool failed;  /* the row has the word `error` instead of a value */
    dl_measured_use use;
    double value[DL_MEASURE_COUNT];
    double *worker_staleness; /* [workers of the point] or NULL */
    double *counts;           /* [count_bins] or NULL */
    double *quantiles_s;      /* [quantile_count] of the steps, or NULL */
    int count_bins, quantile_count;
} measured_row;

/* A table, and the index of each of dl_measured_columns in it; -1: absent. */
typedef struct table {
    dl_csv csv;
    int at[COLUMNS];
    int *swept; /* [study's keys] index of each swept key's column; -1: absent */
} table;

static dl_status find_columns(table *t, const dl_study *study, dl_error *err)
{
    const size_t count = COLUMNS + study->key_count;
    DL_ASSERT(dl_measured_columns[COLUMNS - 1] != NULL && dl_measured_columns[COLUMNS] == NULL,
              "a column without a name");
    DL_AUTOFREE const char **names = dl_calloc(count, sizeof *names, "column names");
    memcpy(names, dl_measured_columns, COLUMNS * sizeof *names);
    for (size_t k = 0; k < study->key_count; k++)
        names[COLUMNS + k] = study->keys[k].column;
    dl_status status = DL_OK;
    for (size_t c = 0; c < t->csv.columns && status == DL_OK; c++) {
        if (dl_names_find(t->csv.names[c], names, count) >= 0) continue;
        const int near = dl_names_nearest(t->csv.names[c], names, count);
        DL_AUTOFREE char *hint =
            near >= 0 ? dl_format("; did you mean '%s'?", names[near]) : dl_strdup(".");
        status = dl_error_set_at(
            err, DL_ERR_NAME, t->csv.path, 0,
            "unknown column '%s'%s A row has throughput_per_s (samples a second of all workers) or "
            "step_s, and its point: workers, batch (of all workers), sync (the mode)",
            t->csv.names[c], hint);
    }
    for (size_t k = 0; k < COLUMNS; k++)
        t->at[k] = dl_csv_column(&t->csv, dl_measured_columns[k]);
    for (size_t k = 0; k < study->key_count; k++)
        t->swept[k] = dl_csv_column(&t->csv, study->keys[k].column);
    return status;
}

static const char *cell(const table *t, size_t row, int column)
{
    return t->at[column] < 0 ? "" : dl_csv_cell(&t->csv, row, (size_t)t->at[column]);
}

/* Sets *fits to whether the row's cell for `key` matches the point; an absent column matches every
 * point. */
static dl_status fits_key(const table *t, size_t row, int key, const dl_point *point, bool *fits,
                          dl_error *err)
{
    *fits = true;
    if (t->at[key] < 0) return DL_OK;
    /* Points on GPUs have no cores; the cores of their hosts are not a key. */
    if (key == KEY_CORES && point->cores == DL_CORES_GPU) return DL_OK;
    if (key == KEY_SYNC) {
        *fits = dl_point_mode_is(point, cell(t, row, key));
        return DL_OK;
    }
    double number = 0;
    dl_status status = dl_csv_number(&t->csv, row, (size_t)t->at[key], &number, err);
    if (status != DL_OK) return status;
    if (key >= KEY_OPTION && !dl_point_shows(point, key - KEY_OPTION)) {
        const bool takes = dl_mode_takes(point->mode, (dl_sync_option)(key - KEY_OPTION));
        *fits = isnan(number) || (takes && number == point->option[key - KEY_OPTION]);
        return DL_OK;
    }
    double own = key == KEY_CORES     ? point->cores
                 : key == KEY_WORKERS ? point->workers
                 : key == KEY_BATCH   ? (double)point->batch
                                      : point->option[key - KEY_OPTION];
    *fits = fabs(number - own) <= 1e-9 * fabs(own);
    return DL_OK;
}

/* Whether two cells are equal as texts or as numbers. */
static bool says_the_same(const char *a, const char *b)
{
    double left = 0, right = 0;
    dl_error ignored = {0};
    if (strcmp(a, b) == 0) return true;
    return dl_parse_double(a, -INFINITY, INFINITY, &left, &ignored) == DL_OK &&
           dl_parse_double(b, -INFINITY, INFINITY, &right, &ignored) == DL_OK && left == right;
}

/* Whether the row's cell for a swept key matches a point of the variant; an absent column matches
 * every point. */
static bool fits_swept(const table *t, size_t row, const dl_study *study, const dl_variant *variant,
                       const dl_point *point, size_t k)
{
    if (t->swept[k] < 0) return true;
    const char *said = dl_csv_cell(&t->csv, row, (size_t)t->swept[k]);
    return says_the_same(dl_study_text(study, variant, point, k), said) ||
           says_the_same(dl_study_cell(study, variant, point, k), said);
}

/* Sets *key to the first key in which point `number` of the study differs from the row's cells:
 * KEY_*, or KEYS + the number of a swept key; without one, to KEYS + key_count. */
static dl_status first_unlike(const table *t, size_t row, const dl_study *study, size_t number,
                              size_t *key, dl_error *err)
{
    size_t p = 0;
    const dl_variant *variant = dl_study_variant(study, number, &p);
    const dl_point *point = &variant->scenario.points[p];
    for (*key = 0; *key < KEYS + study->key_count; ++*key) {
        bool fits = true;
        dl_status status = DL_OK;
        if (*key < KEYS)
            status = fits_key(t, row, (int)*key, point, &fits, err);
        else
            fits = fits_swept(t, row, study, variant, point, *key - KEYS);
        if (status != DL_OK || !fits) return status;
    }
    return DL_OK;
}

/* Returns the point's value of a key as text, freed by the caller. */
static char *key_text(const dl_study *study, size_t number, size_t key)
{
    size_t p = 0;
    const dl_variant *variant = dl_study_variant(study, number, &p);
    const dl_point *point = &variant->scenario.points[p];
    if (key >= KEYS) return dl_strdup(dl_study_text(study, variant, point, key - KEYS));
    if (key == KEY_SYNC) return dl_strdup(dl_point_mode(point));
    if (key < KEY_SYNC)
        return dl_format("%lld", key == KEY_CORES     ? (long long)point->cores
                                 : key == KEY_WORKERS ? (long long)point->workers
                                                      : (long long)point->batch);
    const dl_sync_option option = (dl_sync_option)(key - KEY_OPTION);
    if (!dl_mode_takes(point->mode, option)) return dl_strdup("-");
    return dl_format("%.9g", point->option[option]);
}

/* Returns an error with the first key that no point matches in addition to all keys before it, and
 * the values of that key at the points that match those before it. */
static dl_status no_such_point(const table *t, size_t row, const dl_study *study, dl_error *err)
{
    size_t key = 0, own = 0;
    char *values = NULL, *last = NULL;
    dl_error ignored = {0};
    for (size_t p = 0; p < study->point_count; p++) {
        (void)first_unlike(t, row, study, p, &own, &ignored);
        if (own > key) key = own;
    }
    for (size_t p = 0; p < study->point_count; p++) {
        (void)first_unlike(t, row, study, p, &own, &ignored);
        if (own != key) continue;
        char *value = key_text(study, p, key);
        if (last == NULL || strcmp(last, value) != 0) dl_join(&values, ", ", value);
        free(last);
        last = value;
    }
    const char *name = key < KEYS ? dl_measured_columns[key] : study->keys[key - KEYS].column;
    const dl_status status =
        dl_error_set_at(err, DL_ERR_NAME, t->csv.path, t->csv.lines[row],
                        "no point of the scenario has these keys: in the nearest, %s is %s, not %s",
                        name, values, dl_csv_text_in(&t->csv, row, name));
    free(last);
    free(values);
    return status;
}

/* Returns the columns missing from the table in which two points differ, "batch, sync", freed by
 * the caller; NULL if there are none. */
static char *columns_between(const table *t, const dl_study *study, size_t first, size_t second)
{
    size_t p = 0, q = 0;
    const dl_variant *v = dl_study_variant(study, first, &p);
    const dl_variant *w = dl_study_variant(study, second, &q);
    const dl_point *a = &v->scenario.points[p], *b = &w->scenario.points[q];
    char *list = NULL;
    for (int key = 0; key < KEYS; key++) {
        const int option = key - KEY_OPTION;
        const bool differ = key == KEY_CORES     ? a->cores != b->cores
                            : key == KEY_WORKERS ? a->workers != b->workers
                            : key == KEY_BATCH   ? a->batch != b->batch
                            : key == KEY_SYNC
                                ? a->mode != b->mode
                                : a->mode == b->mode &&
                                      dl_mode_takes(a->mode, (dl_sync_option)option) &&
                                      a->option[option] != b->option[option];
        if (t->at[key] < 0 && differ) dl_join(&list, ", ", dl_measured_columns[key]);
    }
    for (size_t k = 0; k < study->key_count; k++)
        if (t->swept[k] < 0 &&
            strcmp(dl_study_text(study, v, a, k), dl_study_text(study, w, b, k)) != 0)
            dl_join(&list, ", ", study->keys[k].column);
    return list;
}

/* *found: NO_POINT if no point of a changed study has the row's keys. */
static dl_status find_point(const table *t, size_t row, const dl_study *study, size_t *found,
                            dl_error *err)
{
    int matches = 0;
    size_t second = 0;
    for (size_t p = 0; p < study->point_count; p++) {
        size_t key = 0;
        dl_status status = first_unlike(t, row, study, p, &key, err);
        if (status != DL_OK) return status;
        if (key < KEYS + study->key_count) continue;
        if (matches == 0) *found = p;
        if (matches++ == 1) second = p;
    }
    if (matches == 1) return DL_OK;
    if (matches == 0 && !study->is_changed) return no_such_point(t, row, study, err);
    if (matches == 0) *found = NO_POINT;
    if (matches == 0) return DL_OK;
    DL_AUTOFREE char *apart = columns_between(t, study, *found, second);
    return dl_error_set_at(err, DL_ERR_DATA, t->csv.path, t->csv.lines[row],
                           "several points of the scenario have these keys%s%s",
                           apart != NULL ? ": give also " : "", apart != NULL ? apart : "");
}

/* --- settings of a row's run ------------------------------------------------------------------ */

/* Writes the point's value of a setting to text[bytes]; "" if unknown. */
static void point_setting(char *text, size_t bytes, const dl_variant *variant,
                          const dl_point *point, int setting)
{
    const dl_scenario *scenario = &variant->scenario;
    const dl_gpu_options *gpu = scenario->gpu;
    const char *found = NULL;
    snprintf(text, bytes, "%s", "");
    switch (setting) {
    case MODEL: found = variant->costs.workload; break;
    case PRECISION: found = variant->costs.precision; break;
    case GPU_COUNT: snprintf(text, bytes, "%d", gpu != NULL ? dl_point_gpus(point) : 0); return;
    case WHERE:
        if (gpu != NULL && gpu->where == DL_WHERE_GPU) {
            snprintf(text, bytes, "gpu:%d", gpu->where_gpu);
            return;
        }
        found = gpu != NULL && dl_scenario_is_collective(scenario, point) ? "allreduce" : "cpu";
        break;
    case COMPRESS: found = dl_compress_names[scenario->compression.kind]; break;
    case HOST_MEMORY:
        if (gpu != NULL) found = gpu->pageable ? "pageable" : "pinned";
        break;
    default: break;
    }
    if (found != NULL) snprintf(text, bytes, "%s", found);
}

/* Whether the setting is a swept key, whose column has already selected the point. */
static bool is_swept(const table *t, const dl_study *study, int setting)
{
    for (size_t k = 0; k < study->key_count; k++)
        if (t->swept[k] >= 0 && t->swept[k] == t->at[setting]) return true;
    return false;
}

/* Checks that the row's model, precision, ... equal the point's: runs with other settings are not
 * comparable. */
static dl_status check_settings(const table *t, size_t row, const dl_study *study, size_t number,
                                dl_error *err)
{
    size_t p = 0;
    const dl_variant *variant = dl_study_variant(study, number, &p);
    for (int setting = SETTINGS; setting < SOURCE; setting++) {
        char own[256];
        const char *said = cell(t, row, setting);
        if (said[0] == '\0' || is_swept(t, study, setting)) continue;
        point_setting(own, sizeof own, variant, &variant->scenario.points[p], setting);
        if (own[0] == '\0' || strcmp(own, said) == 0) continue;
        return dl_error_set_at(err, DL_ERR_DATA, t->csv.path, t->csv.lines[row],
                               "%s is %s, but that of the point is %s: a run of another setting",
                               dl_measured_columns[setting], said, own);
    }
    return DL_OK;
}

static bool says_error(const table *t, size_t row)
{
    return strcmp(cell(t, row, VALUES + DL_MEASURE_PER_S), "error") == 0 ||
           strcmp(cell(t, row, VALUES + DL_MEASURE_STEP_S), "error") == 0;
}

dl_status dl_measured_seconds(const dl_csv *csv, size_t row, const char *column, double *value,
                              dl_error *err)
{
    const char *said = dl_csv_text_in(csv, row, column);
    double number = 0;
    dl_error why = {0};
    dl_status status = dl_csv_number_in(csv, row, column, value, err);
    if (status == DL_OK || strtod(said, NULL) <= 0) return status;
    status = dl_amount_parse(said, DL_DIMENSION_NS, &number, &why);
    *value = dl_ns_to_s(number);
    if (status == DL_OK) return DL_OK;
    return dl_error_set_at(err, status, csv->path, csv->lines[row], "%s = %s: %s", column, said,
                           why.text);
}

static dl_status read_measure(const table *t, size_t row, int measure, double *value, dl_error *err)
{
    const bool is_time = measure == DL_MEASURE_STEP_S || measure == DL_MEASURE_STEP_S_ERR;
    const char *column = dl_measured_columns[VALUES + measure];
    return is_time ? dl_measured_seconds(&t->csv, row, column, value, err)
                   : dl_csv_number_in(&t->csv, row, column, value, err);
}

static dl_status read_values(const table *t, size_t row, double *value, dl_error *err)
{
    for (int m = 0; m < DL_MEASURE_COUNT; m++) {
        int column = t->at[VALUES + m];
        value[m] = (double)NAN;
        if (column < 0) continue;
        dl_status status = read_measure(t, row, m, &value[m], err);
        if (status != DL_OK) return status;
        bool rate = m == DL_MEASURE_PER_S || m == DL_MEASURE_STEP_S;
        if (value[m] < 0 || (rate && value[m] <= 0) || isinf(value[m])) {
            return dl_error_set_at(err, DL_ERR_RANGE, t->csv.path, t->csv.lines[row],
                                   "%s = %g: expected a number %s 0",
                                   dl_measured_columns[VALUES + m], value[m], rate ? ">" : ">=");
        }
    }
    if (!isnan(value[DL_MEASURE_PER_S]) || !isnan(value[DL_MEASURE_STEP_S])) return DL_OK;
    return dl_error_set_at(err, DL_ERR_DATA, t->csv.path, t->csv.lines[row],
                           "neither throughput_per_s nor step_s is given");
}

/* Reads numbers separated by semicolons, "1.5;0.9", into values[*count]; NULL and 0 for an empty
 * cell. */
static dl_status read_joined(const table *t, size_t row, int column, double **values, int *count,
                             dl_error *err)
{
    const char *text = cell(t, row, column);
    *count = 0;
    if (text[0] == '\0') return DL_OK;
    *values = dl_calloc(strlen(text) / 2 + 1, sizeof **values, "joined numbers");
    for (const char *rest = text; rest != NULL;) {
        size_t length = strcspn(rest, ";");
        dl_error inner = {0};
        DL_AUTOFREE char *number = dl_format("%.*s", (int)length, rest);
        dl_status status = dl_parse_double(number, 0, INFINITY, &(*values)[*count], &inner);
        if (status != DL_OK) {
            return dl_error_set_at(err, status, t->csv.path, t->csv.lines[row], "%s: %s",
                                   dl_measured_columns[column], inner.text);
        }
        ++*count;
        rest = rest[length] == ';' ? rest + length + 1 : NULL;
    }
    return DL_OK;
}

/* Reads one number for each of the point's workers. */
static dl_status read_by_worker(const table *t, size_t row, int workers, double **values,
                                dl_error *err)
{
    int count = 0;
    dl_status status = read_joined(t, row, BY_WORKER, values, &count, err);
    if (status != DL_OK || count == 0 || count == workers) return status;
    return dl_error_set_at(err, DL_ERR_DATA, t->csv.path, t->csv.lines[row],
                           "%s holds %d numbers for %d workers", dl_measured_columns[BY_WORKER],
                           count, workers);
}

static dl_status read_use(const table *t, size_t row, dl_measured_use *use, dl_error *err)
{
    const char *text = cell(t, row, USE);
    const int found = dl_names_find(text, dl_measured_use_names, DL_USE_ERROR);
    *use = found >= 0 ? (dl_measured_use)found : DL_USE_UNSEEN;
    if (found >= 0 || text[0] == '\0') return DL_OK;
    char hint[256];
    dl_names_hint(hint, sizeof hint, text, dl_measured_use_names, DL_USE_ERROR);
    return dl_error_set_at(err, DL_ERR_NAME, t->csv.path, t->csv.lines[row], "unknown use '%s'%s",
                           text, hint);
}

/* Derives a missing throughput from the step or a missing step from the throughput, and a missing
 * standard error from the other one with the same relative size. */
static void derive(double *value, double batch)
{
    double per_s = value[DL_MEASURE_PER_S], step_s = value[DL_MEASURE_STEP_S];
    if (isnan(per_s)) per_s = value[DL_MEASURE_PER_S] = batch / step_s;
    if (isnan(step_s)) step_s = value[DL_MEASURE_STEP_S] = batch / per_s;
    double *per_s_err = &value[DL_MEASURE_PER_S_ERR], *step_s_err = &value[DL_MEASURE_STEP_S_ERR];
    if (isnan(*per_s_err)) *per_s_err = *step_s_err / step_s * per_s;
    if (isnan(*step_s_err)) *step_s_err = *per_s_err / per_s * step_s;
}

static dl_status read_row(const table *t, size_t i, const dl_study *study, measured_row *row,
                          dl_error *err)
{
    dl_status status = find_point(t, i, study, &row->point, err);
    if (status == DL_OK && row->point == NO_POINT) return DL_OK;
    if (status == DL_OK) status = check_settings(t, i, study, row->point, err);
    if (status == DL_OK) status = read_use(t, i, &row->use, err);
    if (status != DL_OK) return status;
    row->failed = says_error(t, i);
    if (row->failed) return DL_OK;
    size_t p = 0;
    const dl_point *point = &dl_study_variant(study, row->point, &p)->scenario.points[p];
    if ((status = read_values(t, i, row->value, err)) ||
        (status = read_by_worker(t, i, point->workers, &row->worker_staleness, err)) ||
        (status = read_joined(t, i, COUNTS, &row->counts, &row->count_bins, err)) ||
        (status = read_joined(t, i, QUANTILES, &row->quantiles_s, &row->quantile_count, err))) {
        return status;
    }
    derive(row->value, (double)point->batch);
    return DL_OK;
}

/* --- summary of a point's rows --------------------------------------------------------------- */

/* Median of the non-NaN values among values[count], NaN if there are none; moves them, sorted, to
 * the front and sets *numbers to their number. */
static double median(double *values, size_t count, size_t *numbers)
{
    *numbers = 0;
    for (size_t i = 0; i < count; i++) {
        if (!isnan(values[i])) values[(*numbers)++] = values[i];
    }
    if (*numbers == 0) return (double)NAN;
    dl_sort_doubles(values, *numbers);
    return dl_quantile(values, *numbers, 0.5);
}

/* Smallest staleness that at least the fraction `p` of `total` gradients do not exceed. */
static double count_quantile(const double *counts, int bins, double total, double p)
{
    double below = 0;
    int s = 0;
    while (s < bins - 1 && (below += counts[s]) < p * total)
        s++;
    return s;
}

/* Sums the staleness counts of all runs, if all runs have them, and computes the statistics of the
 * sum. */
static void pool_counts(dl_measured *measured, const measured_row *const *rows, size_t runs)
{
    int bins = 0;
    for (size_t r = 0; r < runs; r++) {
        if (rows[r]->counts == NULL) return;
        if (rows[r]->count_bins > bins) bins = rows[r]->count_bins;
    }
    DL_AUTOFREE double *counts = dl_calloc((size_t)bins, sizeof *counts, "staleness counts");
    double total = 0, sum = 0, squares = 0;
    for (size_t r = 0; r < runs; r++) {
        for (int s = 0; s < rows[r]->count_bins; s++)
            counts[s] += rows[r]->counts[s];
    }
    for (int s = 0; s < bins; s++) {
        total += counts[s];
        sum += counts[s] * s;
    }
    for (int s = 0; s < bins && total > 0; s++)
        squares += counts[s] * (s - sum / total) * (s - sum / total);
    if (total > 0) {
        measured->value[DL_MEASURE_STALENESS_MEAN] = sum / total;
        measured->value[DL_MEASURE_STALENESS_SD] = sqrt(squares / total);
        measured->value[DL_MEASURE_STALENESS_P50] = count_quantile(counts, bins, total, 0.5);
        measured->value[DL_MEASURE_STALENESS_P90] = count_quantile(counts, bins, total, 0.9);
    }
}

/* Collects the quantiles of the steps of all runs. */
static void pool_steps(dl_measured *measured, const measured_row *const *rows, size_t runs)
{
    for (size_t r = 0; r < runs; r++)
        for (int q = 0; q < rows[r]->quantile_count; q++)
            DL_APPEND(measured->steps_s, measured->step_count, "quantiles of steps") =
                rows[r]->quantiles_s[q];
    dl_sort_doubles(measured->steps_s, measured->step_count);
}

static bool is_disturbed(const measured_row *row)
{
    const double others = row->value[DL_MEASURE_OTHERS_FRAC];
    const double steal = row->value[DL_MEASURE_STEAL_FRAC];
    return (isnan(others) ? 0 : others) + (isnan(steal) ? 0 : steal) > DL_MEASURED_DISTURBED_FRAC;
}

/* Moves the undisturbed rows to the front of rows[runs] and returns their number; if fewer than a
 * quarter would remain, changes nothing and returns `runs`. */
static size_t keep_undisturbed(const measured_row **rows, size_t runs)
{
    size_t disturbed = 0, kept = 0;
    for (size_t r = 0; r < runs; r++)
        disturbed += is_disturbed(rows[r]);
    if (4 * (runs - disturbed) < runs) return runs;
    for (size_t r = 0; r < runs; r++) {
        if (!is_disturbed(rows[r])) rows[kept++] = rows[r];
    }
    return kept;
}

/* Summarizes a point with `workers` from rows[runs], none of which has failed. */
static void summarise(dl_measured *measured, const measured_row *const *rows, size_t runs,
                      int workers)
{
    DL_AUTOFREE double *column = dl_calloc(runs, sizeof *column, "measured column");
    double spread[DL_MEASURE_COUNT];
    for (int m = 0; m < DL_MEASURE_COUNT; m++) {
        size_t numbers = 0;
        for (size_t r = 0; r < runs; r++)
            column[r] = rows[r]->value[m];
        measured->value[m] = median(column, runs, &numbers);
        spread[m] = numbers > 1 ? dl_sd(column, numbers) : (double)NAN;
    }
    if (isnan(measured->value[DL_MEASURE_PER_S_ERR])) {
        measured->value[DL_MEASURE_PER_S_ERR] = spread[DL_MEASURE_PER_S];
        measured->value[DL_MEASURE_STEP_S_ERR] = spread[DL_MEASURE_STEP_S];
    }
    measured->runs_per_s = dl_calloc(runs, sizeof(double), "measured runs");
    for (size_t r = 0; r < runs; r++)
        measured->runs_per_s[r] = rows[r]->value[DL_MEASURE_PER_S];
    dl_sort_doubles(measured->runs_per_s, runs);
    bool by_worker = false;
    for (size_t r = 0; r < runs; r++)
        by_worker |= rows[r]->worker_staleness != NULL;
    if (by_worker) {
        measured->worker_staleness =
            dl_calloc((size_t)workers, sizeof(double), "staleness of workers");
    }
    for (int w = 0; w < workers && by_worker; w++) {
        size_t numbers = 0;
        for (size_t r = 0; r < runs; r++) {
            const double *own = rows[r]->worker_staleness;
            column[r] = own != NULL ? own[w] : (double)NAN;
        }
        measured->worker_staleness[w] = median(column, runs, &numbers);
    }
    pool_counts(measured, rows, runs);
    pool_steps(measured, rows, runs);
    measured->runs = (int)runs;
}

/* Returns a copy of the cell's text with spaces for line breaks, as results have one line per
 * row. */
static char *line_of(const table *t, size_t row, int column)
{
    char *text = dl_strdup(cell(t, row, column));
    for (char *c = text; *c != '\0'; c++) {
        if (*c == '\n' || *c == '\r') *c = ' ';
    }
    return text;
}

/* Adds row i's source and note to its point, and its use, which must equal that of the point's
 * earlier rows. */
static dl_status describe(dl_measured *point, const table *t, size_t i, const measured_row *row,
                          dl_error *err)
{
    if (point->line == 0) {
        point->line = t->csv.lines[i];
        point->use = row->use;
    } else if (point->use != row->use) {
        return dl_error_set_at(err, DL_ERR_DATA, t->csv.path, t->csv.lines[i],
                               "use is %s here and %s in line %d, of the same point",
                               dl_measured_use_names[row->use], dl_measured_use_names[point->use],
                               point->line);
    }
    if (point->source == NULL && cell(t, i, SOURCE)[0] != '\0') {
        point->source = line_of(t, i, SOURCE);
    }
    if (point->note == NULL && cell(t, i, NOTE)[0] != '\0') point->note = line_of(t, i, NOTE);
    return DL_OK;
}

/* Collects the rows of each point and summarizes them. */
static dl_status gather(dl_measured *measured, const dl_study *study, const table *t,
                        const measured_row *rows, dl_error *err)
{
    dl_status status = DL_OK;
    DL_AUTOFREE const measured_row **own = dl_calloc(t->csv.rows, sizeof *own, "runs of a point");
    for (size_t p = 0; p < study->point_count && status == DL_OK; p++) {
        size_t runs = 0, at = 0;
        for (size_t i = 0; i < t->csv.rows && status == DL_OK; i++) {
            if (rows[i].point != p) continue;
            status = describe(&measured[p], t, i, &rows[i], err);
            if (rows[i].failed) {
                measured[p].failed_runs++;
            } else {
                own[runs++] = &rows[i];
            }
        }
        const dl_variant *variant = dl_study_variant(study, p, &at);
        const size_t undisturbed = keep_undisturbed(own, runs);
        measured[p].disturbed_runs = (int)(runs - undisturbed);
        runs = undisturbed;
        if (runs > 0) summarise(&measured[p], own, runs, variant->scenario.points[at].workers);
        if (runs == 0 && measured[p].failed_runs > 0) measured[p].use = DL_USE_ERROR;
    }
    return status;
}

static dl_status read_table(dl_measured *measured, const dl_study *study, const char *path,
                            dl_error *err)
{
    table t = {0};
    dl_status status = dl_measured_table_read(&t.csv, path, study, err);
    if (status != DL_OK) return status;
    t.swept = dl_calloc(study->key_count, sizeof *t.swept, "swept columns");
    DL_AUTOFREE measured_row *rows = dl_calloc(t.csv.rows, sizeof *rows, "measured rows");
    status = find_columns(&t, study, err);
    for (size_t i = 0; i < t.csv.rows && status == DL_OK; i++)
        status = read_row(&t, i, study, &rows[i], err);
    if (status == DL_OK) status = gather(measured, study, &t, rows, err);
    for (size_t i = 0; i < t.csv.rows && status == DL_OK; i++)
        measured[0].without_point += rows[i].point == NO_POINT;
    for (size_t i = 0; i < t.csv.rows; i++) {
        free(rows[i].worker_staleness);
        free(rows[i].counts);
        free(rows[i].quantiles_s);
    }
    free(t.swept);
    dl_csv_free(&t.csv);
    return status;
}

/* Uses the trace's step for a point that was traced and is in no table. */
static void take_traced(dl_measured *point, const dl_variant *variant, const dl_point *of)
{
    const dl_cost_trace *trace =
        point->runs == 0 && point->failed_runs == 0 ? dl_traced_of_point(variant, of) : NULL;
    if (trace == NULL) return;
    double *value = point->value;
    value[DL_MEASURE_STEP_S] = dl_ns_to_s(trace->step_ns.value);
    if (trace->step_ns.error > 0) value[DL_MEASURE_STEP_S_ERR] = dl_ns_to_s(trace->step_ns.error);
    derive(value, (double)of->batch);
    point->runs = 1;
    point->runs_per_s = dl_calloc(1, sizeof(double), "measured runs");
    point->runs_per_s[0] = value[DL_MEASURE_PER_S];
    point->use = DL_USE_TRACED;
    point->source = dl_strdup(trace->file != NULL ? trace->file : "trace");
}

dl_status dl_measured_read(dl_measured **measured, const dl_study *study, dl_error *err)
{
    dl_measured *all = dl_calloc(study->point_count, sizeof *all, "measured points");
    for (size_t p = 0; p < study->point_count; p++) {
        for (int m = 0; m < DL_MEASURE_COUNT; m++)
            all[p].value[m] = (double)NAN;
        all[p].left_out_frac = (double)NAN;
    }
    dl_status status = DL_OK;
    /* The path is equal in all variants, as it cannot be swept. */
    const char *path = study->variants[0].scenario.measured_path;
    if (path != NULL) status = read_table(all, study, path, err);
    for (size_t p = 0; p < study->point_count && status == DL_OK; p++) {
        size_t at = 0;
        const dl_variant *variant = dl_study_variant(study, p, &at);
        take_traced(&all[p], variant, &variant->scenario.points[at]);
    }
    if (status == DL_OK) {
        *measured = all;
    } else {
        dl_measured_free(all, study->point_count);
    }
    return status;
}

double dl_measured_quantile(const dl_measured *measured, double fraction)
{
    if (measured->runs < DL_MEASURED_REPEATED_MIN) return (double)NAN;
    return dl_quantile(measured->runs_per_s, (size_t)measured->runs, fraction);
}

dl_status dl_measured_read_left_out(dl_measured *measured, size_t count, const char *path,
                                    dl_error *err)
{
    static const char *const names[] = {"line", "left_out_error_frac"};
    DL_SCOPED(dl_csv) csv = {0};
    dl_status status = dl_csv_read(&csv, path, err);
    for (size_t n = 0; n < 2 && status == DL_OK; n++) {
        if (dl_csv_column(&csv, names[n]) < 0) {
            status = dl_error_set_at(err, DL_ERR_NAME, path, 0, "no column '%s'", names[n]);
        }
    }
    for (size_t i = 0; i < csv.rows && status == DL_OK; i++) {
        double line = 0, error = 0;
        status = dl_csv_number(&csv, i, (size_t)dl_csv_column(&csv, names[0]), &line, err);
        if (status == DL_OK) {
            status = dl_csv_number(&csv, i, (size_t)dl_csv_column(&csv, names[1]), &error, err);
        }
        for (size_t p = 0; p < count && status == DL_OK; p++) {
            if (measured[p].line == line && measured[p].runs == 1)
                measured[p].left_out_frac = error;
        }
    }
    return status;
}

void dl_measured_free(dl_measured *measured, size_t count)
{
    for (size_t p = 0; measured != NULL && p < count; p++) {
        free(measured[p].runs_per_s);
        free(measured[p].steps_s);
        free(measured[p].worker_staleness);
        free(measured[p].source);
        free(measured[p].note);
    }
    free(measured);
}
