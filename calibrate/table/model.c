#include "calibrate/table/table_internal.h"

#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calibrate/table/table.h"
#include "common/alloc.h"
#include "common/bytes.h"
#include "common/jobs.h"
#include "common/names.h"
#include "common/units.h"
#include "sim/costs/costs.h"
#include "sim/run.h"

#define DL_TABLE_RANGE 1e5 /* the search keeps costs within this factor of the guess */

/* Points to simulate as jobs. */
typedef struct simulated {
    const dl_table_simulation *simulation;
    size_t *points; /* indices of the wanted points */
    double *per_s;  /* [scenario->point_count] throughputs */
} simulated;

/* Result of a job. The key prevents a search at different costs from using the records of an
 * earlier search's journal. */
typedef struct outcome {
    uint64_t key;
    int64_t point;
    double per_s;
} outcome;

/* Steps until the host is as far ahead of the GPUs as possible, and all prefetched batches are
 * ready. */
static int64_t filling_steps(const dl_table_simulation *simulation)
{
    const dl_scenario *scenario = simulation->scenario;
    if (scenario->gpu == NULL) return 0;
    const int in_stock = dl_costs_have_input(simulation->costs) ? scenario->gpu->prefetch : 0;
    return 2 * (scenario->gpu->ahead + in_stock);
}

static int64_t steps_of(const dl_table_simulation *simulation, const dl_point *point)
{
    dl_scenario least = *simulation->scenario;
    least.steps = simulation->steps + filling_steps(simulation);
    return dl_run_steps(&least, point);
}

static dl_status run(const dl_table_simulation *simulation, size_t point, int64_t steps,
                     int64_t steady_after, dl_run_result *result, dl_error *err)
{
    dl_scenario scenario = *simulation->scenario;
    scenario.steps = steps;
    const dl_run_config config = {.scenario = &scenario,
                                  .costs = simulation->costs,
                                  .point = &scenario.points[point],
                                  .steady_after = steady_after};
    return dl_run(&config, result, err);
}

static dl_status simulate_point(const dl_table_simulation *simulation, size_t point, double *per_s,
                                dl_error *err)
{
    const int64_t steps = steps_of(simulation, &simulation->scenario->points[point]);
    /* Prefetched batches can last for many steps of equal duration. */
    const bool from_stock = dl_costs_have_input(simulation->costs);
    const int64_t steady_after = 1 + (from_stock ? steps : filling_steps(simulation));
    DL_SCOPED(dl_run_result) half = {0}, whole = {0};
    dl_status status = run(simulation, point, 2 * steps, steady_after, &whole, err);
    if (status == DL_OK && whole.steady_per_s > 0) {
        *per_s = whole.steady_per_s;
    } else if (status == DL_OK) {
        status = run(simulation, point, steps, 0, &half, err);
        *per_s = (whole.samples - half.samples) / (whole.span_s - half.span_s);
    }
    return status;
}

static dl_status run_job(void *user, int64_t job, dl_error *err)
{
    const simulated *s = user;
    const size_t point = s->points[job];
    return simulate_point(s->simulation, point, &s->per_s[point], err);
}

static void encode_job(void *user, int64_t job, dl_bytes *into)
{
    const simulated *s = user;
    const size_t point = s->points[job];
    const outcome left = {s->simulation->key, (int64_t)point, s->per_s[point]};
    dl_bytes_add(into, &left, sizeof left);
}

static bool decode_job(void *user, int64_t job, const void *data, size_t bytes)
{
    const simulated *s = user;
    outcome left;
    if (bytes != sizeof left) return false;
    memcpy(&left, data, sizeof left);
    if (left.key != s->simulation->key || left.point != (int64_t)s->points[job]) return false;
    s->per_s[left.point] = left.per_s;
    return true;
}

/* Returns whether the journal has all jobs, so that other ranks are not needed. */
static bool recall_all(const dl_jobs *jobs)
{
    const void *data;
    size_t bytes;
    int64_t job = 0;
    while (jobs->journal != NULL && job < jobs->count &&
           dl_journal_find(jobs->journal, jobs->journal_first + job, &data, &bytes) &&
           jobs->decode(jobs->user, job, data, bytes))
        job++;
    return job == jobs->count;
}

dl_status dl_table_simulate(const dl_table_simulation *simulation, double *per_s, dl_error *err)
{
    const size_t count = simulation->scenario->point_count;
    simulated s = {.simulation = simulation, .per_s = per_s};
    dl_jobs jobs = {.threads = simulation->threads,
                    .user = &s,
                    .run = run_job,
                    .encode = encode_job,
                    .decode = decode_job,
                    .cluster = simulation->cluster,
                    .journal = simulation->journal,
                    .journal_first = simulation->next != NULL ? *simulation->next : 0};
    dl_status status = DL_OK;
    s.points = dl_calloc(count, sizeof *s.points, "points to simulate");
    for (size_t p = 0; p < count; p++)
        if (simulation->wanted[p]) s.points[jobs.count++] = p;
    if (!recall_all(&jobs)) {
        status = dl_table_ranks_ask(simulation, err);
        if (status == DL_OK) status = dl_jobs_run(&jobs, err);
    }
    if (simulation->next != NULL) *simulation->next += jobs.count;
    free(s.points);
    return status;
}

bool dl_table_is_rate(const dl_table_cost *cost)
{
    return dl_ends_with(cost->name, "bytes_per_s") || dl_ends_with(cost->name, "bandwidth_frac") ||
           dl_ends_with(cost->name, "sum_frac");
}

/* Median over the rows of the step time in ns, divided by the samples per worker or the workers if
 * requested. */
static double median_step_ns(const dl_table_rows *rows, bool per_sample, bool per_worker)
{
    DL_AUTOFREE double *steps = dl_calloc(rows->used, sizeof *steps, "steps of rows");
    size_t count = 0;
    for (size_t i = 0; i < rows->count; i++) {
        const dl_table_row *row = &rows->rows[i];
        if (row->failed) continue;
        double step_ns = dl_s_to_ns((double)row->batch / row->throughput_per_s);
        if (per_sample) step_ns /= (double)row->point.batch / row->point.workers;
        if (per_worker) step_ns /= row->point.workers;
        steps[count++] = step_ns;
    }
    gsl_sort(steps, 1, count);
    return gsl_stats_median_from_sorted_data(steps, 1, count);
}

/* Start of the search for an unknown cost, mostly a fraction of the step. */
static double guess(const dl_table_model *model, const dl_table_cost *cost)
{
    const dl_table_rows *rows = &model->parts[cost->part].rows;
    const int64_t parameter_bytes = model->parts[cost->part].costs.parameter_bytes;
    if (cost->was_known) return cost->was;
    if (cost->start > 0) return cost->start;
    if (dl_ends_with(cost->name, "_frac")) return 0.05;
    if (dl_ends_with(cost->name, "per_sample_ns")) return median_step_ns(rows, true, false) / 2;
    if (dl_ends_with(cost->name, "per_worker_ns")) return median_step_ns(rows, false, true) / 2;
    const double step_ns = median_step_ns(rows, false, false);
    if (dl_ends_with(cost->name, "_ns")) return step_ns / 4;
    if (dl_table_is_rate(cost) && parameter_bytes > 0) {
        return (double)parameter_bytes / dl_ns_to_s(step_ns / 10);
    }
    if (dl_table_is_rate(cost)) return 1e9; /* bytes per second of a slow link */
    return dl_ends_with(cost->name, "bytes_per_sample") ? 1e4 : 1.1; /* bytes of a small picture; a
                                                                      * factor near 1 */
}

/* --- simulated results ------------------------------------------------------------------------ */

/* Cache of simulated results. The search evaluates the same costs several times: at the end of a
 * descent, for differences, and for each left-out point. It holds at most MEMORY_MAX entries. */
#define MEMORY_MAX 16384

typedef struct dl_table_memory {
    size_t width, points;  /* number of doubles per key; number of points of the scenario */
    size_t count, slots;   /* slots: a power of 2, at least twice the count */
    size_t *slot;          /* [slots] 1 + entry; 0: empty */
    double *keys, *values; /* [count x width], [count x points]; NaN: not simulated */
} memory;

static uint64_t hash(const double *key, size_t width)
{
    return dl_hash_bytes(DL_HASH_START, key, width * sizeof *key);
}

/* Returns the key's slot, or the empty slot for it. */
static size_t *find_slot(const memory *m, const double *key)
{
    size_t at = hash(key, m->width) & (m->slots - 1);
    while (m->slot[at] != 0 &&
           memcmp(&m->keys[(m->slot[at] - 1) * m->width], key, m->width * sizeof *key) != 0)
        at = (at + 1) & (m->slots - 1);
    return &m->slot[at];
}

static void grow(memory *m)
{
    m->slots = m->slots == 0 ? 256 : 2 * m->slots;
    free(m->slot);
    m->slot = dl_calloc(m->slots, sizeof *m->slot, "what was simulated");
    for (size_t e = 0; e < m->count; e++)
        *find_slot(m, &m->keys[e * m->width]) = e + 1;
}

/* Returns the entry with the points' throughputs at these costs, adding it if needed (NaN: not
 * simulated); NULL if the cache is full. */
static double *recall(memory *m, const double *key)
{
    if (2 * (m->count + 1) > m->slots) grow(m);
    size_t *slot = find_slot(m, key);
    if (*slot == 0) {
        if (m->count == MEMORY_MAX) return NULL;
        m->keys = dl_realloc(m->keys, (m->count + 1) * m->width, sizeof *m->keys, "costs");
        m->values = dl_realloc(m->values, (m->count + 1) * m->points, sizeof *m->values,
                               "what was simulated");
        memcpy(&m->keys[m->count * m->width], key, m->width * sizeof *key);
        for (size_t p = 0; p < m->points; p++)
            m->values[m->count * m->points + p] = (double)NAN;
        *slot = ++m->count;
    }
    return &m->values[(*slot - 1) * m->points];
}

static void free_memory(memory *m)
{
    free(m->slot);
    free(m->keys);
    free(m->values);
}

static bool is_of(const dl_table_cost *cost, size_t part)
{
    return cost->value[part] != NULL;
}

static void add_part(dl_table_model *model, size_t number)
{
    const dl_table_part *part = &model->parts[number];
    memory *m = &model->memory[number];
    m->points = part->scenario.point_count;
    m->width = 1;
    for (size_t j = 0; j < model->unknown->count; j++)
        m->width += is_of(&model->unknown->items[j], number);
    model->scale[number] = 1;
    model->first_point[number + 1] = model->first_point[number] + m->points;
    for (size_t i = 0; i < part->rows.count; i++) {
        const dl_table_row *row = &part->rows.rows[i];
        DL_APPEND(model->rows, model->row_count, "rows") =
            (dl_table_model_row){row, number, model->first_point[number] + row->at};
    }
}

void dl_table_model_init(dl_table_model *model, dl_table_part *parts, size_t part_count,
                         const dl_table_costs *unknown, int threads)
{
    *model = (dl_table_model){.parts = parts,
                              .part_count = part_count,
                              .unknown = unknown,
                              .threads = threads,
                              .fitted = unknown->count,
                              .steps = DL_TABLE_STEPS,
                              .status = DL_OK};
    model->memory = dl_calloc(part_count, sizeof *model->memory, "what was simulated");
    for (size_t p = 0; p < part_count; p++)
        add_part(model, p);
    const size_t points = model->first_point[part_count], rows = model->row_count;
    model->wanted = dl_calloc(points, sizeof *model->wanted, "points to simulate");
    model->use = dl_calloc(rows, sizeof *model->use, "rows that count");
    model->weight = dl_calloc(rows, sizeof *model->weight, "weights of rows");
    model->per_s = dl_calloc(points, sizeof *model->per_s, "throughputs");
    model->jacobian = gsl_matrix_calloc(rows, unknown->count);
    for (size_t i = 0; i < rows; i++) {
        model->use[i] = !model->rows[i].row->failed;
        model->weight[i] = 1;
    }
    for (size_t j = 0; j < unknown->count; j++) {
        model->active[j] = true;
        model->guess[j] = guess(model, &unknown->items[j]);
    }
}

void dl_table_model_free(dl_table_model *model)
{
    free(model->use);
    free(model->weight);
    free(model->wanted);
    free(model->per_s);
    for (size_t p = 0; p < model->part_count; p++)
        free_memory(&model->memory[p]);
    free(model->memory);
    free(model->rows);
    gsl_matrix_free(model->jacobian);
    *model = (dl_table_model){0};
}

void dl_table_show(const dl_table_model *model, const char *what, size_t done, size_t count)
{
    const dl_table_fit_config *config = model->config;
    if (config == NULL || config->progress == NULL) return;
    config->progress(config->user, what, (int64_t)done, (int64_t)count);
}

size_t dl_table_model_rows(const dl_table_model *model)
{
    size_t count = 0;
    for (size_t i = 0; i < model->row_count; i++)
        count += model->use[i];
    return count;
}

size_t dl_table_model_costs(const dl_table_model *model)
{
    size_t count = 0;
    for (size_t j = 0; j < model->unknown->count; j++)
        count += model->active[j];
    return count;
}

bool dl_table_model_has_rows(const dl_table_model *model, size_t rows)
{
    size_t needed[DL_TABLE_PARTS_MAX] = {0}, count[DL_TABLE_PARTS_MAX] = {0};
    for (size_t j = 0; j < model->unknown->count; j++) {
        const dl_table_cost *cost = &model->unknown->items[j];
        if (model->active[j] && !cost->shared) needed[cost->part] += rows;
    }
    for (size_t i = 0; i < model->row_count; i++)
        count[model->rows[i].part] += model->use[i];
    bool enough = dl_table_model_rows(model) >= rows * dl_table_model_costs(model);
    for (size_t p = 0; p < model->part_count; p++)
        enough &= count[p] >= needed[p];
    return enough;
}

double dl_table_model_low(const dl_table_model *model, size_t cost)
{
    return log(fmax(model->guess[cost] / DL_TABLE_RANGE, model->unknown->items[cost].low));
}

double dl_table_model_high(const dl_table_model *model, size_t cost)
{
    return log(fmin(model->guess[cost] * DL_TABLE_RANGE, model->unknown->items[cost].high));
}

double dl_table_model_least(const dl_table_model *model, size_t cost)
{
    return dl_table_is_rate(&model->unknown->items[cost]) ? dl_table_model_high(model, cost)
                                                          : dl_table_model_low(model, cost);
}

static double limited(const dl_table_model *model, const double *x, size_t cost)
{
    return exp(
        fmin(fmax(x[cost], dl_table_model_low(model, cost)), dl_table_model_high(model, cost)));
}

/* Sets the key of a part's simulation: the values of its costs, and the steps. */
static void set_key(const dl_table_model *model, size_t part, const double *x, double *key)
{
    size_t at = 0;
    for (size_t j = 0; j < model->unknown->count; j++) {
        if (is_of(&model->unknown->items[j], part)) key[at++] = limited(model, x, j);
    }
    key[at] = (double)model->steps;
}

size_t dl_table_points_most(const dl_table_part *parts, size_t count)
{
    size_t most = 0;
    for (size_t p = 0; p < count; p++) {
        if (parts[p].scenario.point_count > most) most = parts[p].scenario.point_count;
    }
    return most;
}

/* Simulates the part's wanted points that were not yet simulated at these costs. */
static dl_status simulate_new(dl_table_model *model, size_t part, const double *x)
{
    memory *m = &model->memory[part];
    double key[DL_TABLE_COSTS_MAX + 1];
    set_key(model, part, x, key);
    bool *wanted = &model->wanted[model->first_point[part]];
    double *per_s = &model->per_s[model->first_point[part]];
    const double *known = recall(m, key);
    bool any = false;
    for (size_t p = 0; p < m->points; p++) {
        if (!wanted[p]) continue;
        if (known != NULL && !isnan(known[p])) {
            per_s[p] = known[p];
            wanted[p] = false;
        }
        any |= wanted[p];
        model->runs += wanted[p];
    }
    if (!any) return DL_OK;
    const dl_table_simulation simulation = {
        .scenario = &model->parts[part].scenario,
        .costs = &model->parts[part].costs,
        .wanted = wanted,
        .steps = model->steps,
        .threads = model->threads,
        .cluster = model->cluster,
        .part = part,
        .points_most = dl_table_points_most(model->parts, model->part_count),
        .sought = model->unknown,
        .fitted = model->fitted,
        .key = hash(key, m->width),
        .journal = model->journal,
        .next = model->next};
    const dl_status status = dl_table_simulate(&simulation, per_s, &model->error);
    double *kept = recall(m, key);
    for (size_t p = 0; p < m->points && kept != NULL && status == DL_OK; p++) {
        if (wanted[p]) kept[p] = per_s[p];
    }
    return status;
}

dl_status dl_table_model_set(dl_table_model *model, const double *x)
{
    if (model->status != DL_OK) return model->status;
    for (size_t j = 0; j < model->unknown->count; j++) {
        const dl_value value = {.known = true, .value = limited(model, x, j)};
        dl_table_cost_set(&model->unknown->items[j], &value);
    }
    memset(model->wanted, 0, model->first_point[model->part_count] * sizeof *model->wanted);
    for (size_t i = 0; i < model->row_count; i++) {
        if (model->use[i]) model->wanted[model->rows[i].point] = true;
    }
    for (size_t p = 0; p < model->part_count && model->status == DL_OK; p++)
        model->status = simulate_new(model, p, x);
    return model->status;
}

double dl_table_model_residual(const dl_table_model *model, size_t row)
{
    const dl_table_row *r = model->rows[row].row;
    /* The simulated batch may be slightly larger than the real one; the step time is the same. */
    const double simulated_per_s =
        model->per_s[model->rows[row].point] * (double)r->batch / (double)r->point.batch;
    return log(r->throughput_per_s / simulated_per_s);
}

double dl_table_model_squares(dl_table_model *model, const double *x)
{
    if (dl_table_model_set(model, x) != DL_OK) return (double)INFINITY;
    double squares = 0;
    for (size_t i = 0; i < model->row_count; i++) {
        if (!model->use[i]) continue;
        squares += model->weight[i] * pow(dl_table_model_residual(model, i), 2);
    }
    return squares;
}

/* Computes r of the rows used, with x[cost] = at. */
static dl_status residuals_beside(dl_table_model *model, const double *x, size_t cost, double at,
                                  double *r)
{
    double moved[DL_TABLE_COSTS_MAX];
    memcpy(moved, x, model->unknown->count * sizeof *moved);
    moved[cost] = at;
    const dl_status status = dl_table_model_set(model, moved);
    for (size_t i = 0; i < model->row_count && status == DL_OK; i++) {
        if (model->use[i]) r[i] = dl_table_model_residual(model, i);
    }
    return status;
}

dl_status dl_table_model_differentiate(dl_table_model *model, const double *x, bool both_sides)
{
    const size_t rows = model->row_count;
    DL_AUTOFREE double *up = dl_calloc(rows, sizeof *up, "residuals");
    DL_AUTOFREE double *down = dl_calloc(rows, sizeof *down, "residuals");
    for (size_t j = 0; j < model->unknown->count && model->status == DL_OK; j++) {
        if (!model->active[j]) continue;
        const double low = dl_table_model_low(model, j), high = dl_table_model_high(model, j);
        const double above = fmin(x[j] + DL_TABLE_DIFFERENCE, high);
        double below = x[j];
        if (both_sides || above - x[j] < DL_TABLE_DIFFERENCE / 2) {
            below = fmax(x[j] - DL_TABLE_DIFFERENCE, low);
        }
        (void)residuals_beside(model, x, j, above, up);
        (void)residuals_beside(model, x, j, below, down);
        for (size_t i = 0; i < rows; i++) {
            if (!model->use[i]) continue;
            gsl_matrix_set(model->jacobian, i, j, (up[i] - down[i]) / (above - below));
        }
    }
    model->jacobian_known = model->status == DL_OK;
    memcpy(model->jacobian_x, x, model->unknown->count * sizeof *x);
    return model->status;
}

void dl_table_model_weighted(const dl_table_model *model, gsl_matrix *jacobian)
{
    size_t row = 0;
    for (size_t i = 0; i < model->row_count; i++) {
        if (!model->use[i]) continue;
        size_t column = 0;
        for (size_t j = 0; j < model->unknown->count; j++) {
            if (!model->active[j]) continue;
            gsl_matrix_set(jacobian, row, column++,
                           sqrt(model->weight[i]) * gsl_matrix_get(model->jacobian, i, j));
        }
        row++;
    }
}
