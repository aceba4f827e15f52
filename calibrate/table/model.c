#include "calibrate/table/table_internal.h"

#include <gsl/gsl_errno.h>
#include <gsl/gsl_multifit_nlinear.h>
#include <gsl/gsl_qrng.h>
#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calibrate/table/table.h"
#include "common/alloc.h"
#include "common/names.h"
#include "common/sort.h"
#include "common/units.h"
#include "sim/costs/costs.h"
#include "sim/run.h"
#include "sim/sweep.h"

#define DL_TABLE_SEARCH_STEPS 6 /* while it looks for the place to go down from */
#define DL_TABLE_NEAR_STEPS 6   /* with `near`, which is for many rows; half of them at first */
#define DL_TABLE_RANGE 1e5      /* costs are sought within this factor of the guess */

/* What a table may determine: all numbers that times depend on, by name. */
typedef struct candidates {
    char **names; /* [count] "dispatch.serial_ns" */
    dl_value **values;
    size_t count;
} candidates;

static void add_candidate(candidates *all, const char *section, const char *key, dl_value *value)
{
    all->names = dl_realloc(all->names, all->count + 1, sizeof *all->names, "names of costs");
    all->values = dl_realloc(all->values, all->count + 1, sizeof *all->values, "costs");
    all->names[all->count] = dl_format("%s.%s", section, key);
    all->values[all->count++] = value;
}

static candidates list_candidates(dl_costs *costs)
{
    candidates all = {0};
    for (size_t i = 0; i < costs->op_count; i++) {
        char *section = dl_format("op %s", costs->ops[i].name);
        add_candidate(&all, section, "fixed_ns", &costs->ops[i].fixed_ns);
        add_candidate(&all, section, "per_sample_ns", &costs->ops[i].per_sample_ns);
        free(section);
    }
    for (size_t i = 0; i < dl_cost_keys.count; i++) {
        const dl_key *key = &dl_cost_keys.rows[i];
        dl_value *value = dl_cost_single(costs, key);
        if (value == NULL || key->group == DL_NEED_GPU_MEMORY) continue; /* no time depends on it */
        add_candidate(&all, key->section, key->name, value);
    }
    for (int k = 2; k <= DL_SHARING_MAX; k++) {
        char key[32];
        snprintf(key, sizeof key, "copies_%d", k);
        add_candidate(&all, "sharing", key, &costs->sharing[k]);
    }
    return all;
}

static void free_candidates(candidates *all)
{
    for (size_t i = 0; i < all->count; i++)
        free(all->names[i]);
    free(all->names);
    free(all->values);
}

/* The next item of a list with commas, as "section.key" or "key" of its own; *rest moves on and
 * becomes NULL after the last. "[section] key" is brought into that form. */
static char *next_name(const char **rest)
{
    const char *end = strchrnul(*rest, ',');
    char *name = dl_strndup_trimmed(*rest, (size_t)(end - *rest));
    *rest = *end != '\0' ? end + 1 : NULL;
    const char *close = name[0] == '[' ? strchr(name, ']') : NULL;
    if (close == NULL) return name;
    const char *key = close + 1 + strspn(close + 1, " \t");
    char *joined = dl_format("%.*s.%s", (int)(close - name - 1), name + 1, key);
    free(name);
    return joined;
}

/* Index of the candidate; *matches: how many have this key, where it is given without a section. */
static size_t find(const candidates *all, const char *name, int *matches)
{
    size_t found = 0;
    *matches = 0;
    for (size_t i = 0; i < all->count; i++) {
        const char *key = strrchr(all->names[i], '.') + 1;
        if (strcmp(all->names[i], name) != 0 && strcmp(key, name) != 0) continue;
        found = i;
        ++*matches;
    }
    return found;
}

/* "op a.forward.fixed_ns" as "[op a.forward] fixed_ns". */
static char *full_name(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dl_format("[%.*s] %s", (int)(dot - name), name, dot + 1);
}

static dl_status add(dl_table_costs *list, const candidates *all, size_t index, dl_error *err)
{
    for (size_t i = 0; i < list->count; i++) {
        if (list->items[i].value != all->values[index]) continue;
        return dl_error_set(err, DL_ERR_USAGE, "--fit: '%s' is given twice", all->names[index]);
    }
    if (list->count == DL_TABLE_COSTS_MAX) {
        return dl_error_set(err, DL_ERR_USAGE, "more than %d costs to fit", DL_TABLE_COSTS_MAX);
    }
    dl_value *value = all->values[index];
    list->items[list->count++] = (dl_table_cost){.name = full_name(all->names[index]),
                                                 .value = value,
                                                 .was_known = value->known && value->value > 0,
                                                 .was = value->value};
    return DL_OK;
}

static dl_status add_named(dl_table_costs *list, const candidates *all, const char *name,
                           dl_error *err)
{
    int matches = 0;
    const size_t index = find(all, name, &matches);
    if (matches == 1) return add(list, all, index, err);
    if (matches > 1) {
        return dl_error_set(err, DL_ERR_USAGE, "--fit: several sections have '%s': say section.%s",
                            name, name);
    }
    const int nearest = dl_names_nearest(name, (const char *const *)all->names, all->count);
    return dl_error_set(err, DL_ERR_USAGE, "--fit: no cost '%s'%s%s%s", name,
                        nearest >= 0 ? "; did you mean '" : "",
                        nearest >= 0 ? all->names[nearest] : "", nearest >= 0 ? "'?" : "");
}

/* Adds the operation `name` unless it is there, or cannot be one. */
static void add_operation(dl_costs *costs, const char *name)
{
    if (strcmp(name, "input") != 0 && strcmp(name, "dispatch") != 0 &&
        !dl_ends_with(name, ".forward") && !dl_ends_with(name, ".backward") &&
        !dl_ends_with(name, ".update")) {
        return;
    }
    for (size_t i = 0; i < costs->op_count; i++) {
        if (strcmp(costs->ops[i].name, name) == 0) return;
    }
    costs->ops = dl_realloc(costs->ops, costs->op_count + 1, sizeof *costs->ops, "operations");
    costs->ops[costs->op_count++] = (dl_op_cost){.name = dl_strdup(name)};
}

/* Adds the operations that "op NAME.key" are of. */
static void add_named_operations(dl_costs *costs, const char *names)
{
    for (const char *rest = names; rest != NULL;) {
        char *name = next_name(&rest), *dot = strrchr(name, '.');
        if (strncmp(name, "op ", 3) == 0 && dot != NULL) {
            *dot = '\0';
            add_operation(costs, name + 3);
        }
        free(name);
    }
}

static bool listed(const dl_table_costs *list, const char *name)
{
    for (size_t i = 0; i < list->count; i++) {
        char *full = full_name(name);
        const bool same = strcmp(list->items[i].name, full) == 0;
        free(full);
        if (same) return true;
    }
    return false;
}

static dl_status lacks(const dl_costs *costs, const char *name, const char *why, dl_error *err)
{
    return dl_error_set_at(err, DL_ERR_DATA, costs->path, 0, "lacks %s, which %s", name, why);
}

/* Of the missing costs: those are added that are not in the list, or are an error if `complete`. */
static dl_status add_missing(dl_table_costs *list, const candidates *all, const char *missing,
                             bool complete, const dl_costs *costs, dl_error *err)
{
    dl_status status = DL_OK;
    for (const char *rest = missing; rest != NULL && status == DL_OK;) {
        char *name = next_name(&rest);
        int matches = 0;
        const size_t index = find(all, name, &matches);
        if (matches != 1) {
            status = lacks(costs, name, "no table of throughputs determines", err);
        } else if (!listed(list, name)) {
            status = complete ? lacks(costs, name, "is not to be fitted", err)
                              : add(list, all, index, err);
        }
        free(name);
    }
    return status;
}

/* Makes one of the two passes' costs of the same key. */
static void join_passes(dl_table_costs *list)
{
    const char *forward = "[op network.forward] ", *backward = "[op network.backward] ";
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++) {
        dl_table_cost cost = list->items[i];
        if (strncmp(cost.name, backward, strlen(backward)) == 0) {
            free(cost.name);
            continue;
        }
        if (strncmp(cost.name, forward, strlen(forward)) == 0) {
            const char *key = cost.name + strlen(forward);
            for (size_t j = 0; j < list->count; j++) {
                const char *other = list->items[j].name;
                if (j > i && strncmp(other, backward, strlen(backward)) == 0 &&
                    strcmp(other + strlen(backward), key) == 0) {
                    cost.rest = list->items[j].value;
                }
            }
            char *joined = dl_format("[op network.*] %s", key);
            free(cost.name);
            cost.name = joined;
        }
        list->items[kept++] = cost;
    }
    list->count = kept;
}

void dl_table_cost_set(const dl_table_cost *cost, const dl_value *value)
{
    *cost->value = *value;
    if (cost->rest == NULL) return;
    *cost->rest = *value;
    cost->value->value *= DL_TABLE_FORWARD_FRAC;
    cost->value->error *= DL_TABLE_FORWARD_FRAC;
    cost->rest->value *= 1 - DL_TABLE_FORWARD_FRAC;
    cost->rest->error *= 1 - DL_TABLE_FORWARD_FRAC;
}

dl_status dl_table_costs_missing(dl_table_costs *list, const dl_scenario *scenario, dl_costs *costs,
                                 dl_error *err)
{
    const bool without_operations = costs->op_count == 0;
    if (without_operations) {
        add_operation(costs, "network.forward");
        add_operation(costs, "network.backward");
    }
    char *missing = dl_sweep_missing(scenario, costs);
    if (missing == NULL) {
        return dl_error_set_at(err, DL_ERR_DATA, costs->path, 0,
                               "lacks no cost; --fit names those that are to be fitted");
    }
    candidates all = list_candidates(costs);
    const dl_status status = add_missing(list, &all, missing, false, costs, err);
    if (without_operations) join_passes(list);
    free_candidates(&all);
    free(missing);
    return status;
}

dl_status dl_table_costs_named(dl_table_costs *list, const char *names, const dl_scenario *scenario,
                               dl_costs *costs, dl_error *err)
{
    add_named_operations(costs, names);
    candidates all = list_candidates(costs);
    dl_status status = DL_OK;
    for (const char *rest = names; rest != NULL && status == DL_OK;) {
        char *name = next_name(&rest);
        status = add_named(list, &all, name, err);
        free(name);
    }
    char *missing = dl_sweep_missing(scenario, costs);
    if (status == DL_OK) status = add_missing(list, &all, missing, true, costs, err);
    free(missing);
    free_candidates(&all);
    return status;
}

void dl_table_costs_free(dl_table_costs *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i].name);
    *list = (dl_table_costs){0};
}

/* The points, taken one by one by all threads. */
typedef struct jobs {
    const dl_table_simulation *simulation;
    double *per_s;
    pthread_mutex_t mutex;
    size_t next; /* this and the rest: under the mutex */
    size_t failed;
    dl_status status;
    dl_error error;
} jobs;

static int64_t steps_of(const dl_table_simulation *simulation, const dl_point *point)
{
    dl_scenario least = *simulation->scenario;
    least.steps = simulation->steps;
    if (least.gpu != NULL) {
        const int in_stock = dl_costs_have_input(simulation->costs) ? least.gpu->prefetch : 0;
        least.steps += 2 * (least.gpu->ahead + in_stock);
    }
    return dl_run_steps(&least, point);
}

static dl_status run(const dl_table_simulation *simulation, size_t point, int64_t steps,
                     dl_run_result *result, dl_error *err)
{
    dl_scenario scenario = *simulation->scenario;
    scenario.steps = steps;
    const dl_run_config config = {
        .scenario = &scenario, .costs = simulation->costs, .point = &scenario.points[point]};
    return dl_run(&config, result, err);
}

static dl_status simulate_point(const dl_table_simulation *simulation, size_t point, double *per_s,
                                dl_error *err)
{
    const int64_t steps = steps_of(simulation, &simulation->scenario->points[point]);
    dl_run_result half = {0}, whole = {0};
    dl_status status = run(simulation, point, steps, &half, err);
    if (status == DL_OK) status = run(simulation, point, 2 * steps, &whole, err);
    if (status == DL_OK) {
        *per_s = (whole.samples - half.samples) / (whole.span_s - half.span_s);
    }
    dl_run_result_free(&half);
    dl_run_result_free(&whole);
    return status;
}

/* The next wanted point, or their number. */
static size_t take(jobs *all)
{
    const size_t count = all->simulation->scenario->point_count;
    pthread_mutex_lock(&all->mutex);
    while (all->next < count && !all->simulation->wanted[all->next])
        all->next++;
    const size_t point = all->status == DL_OK && all->next < count ? all->next++ : count;
    pthread_mutex_unlock(&all->mutex);
    return point;
}

static void note_failure(jobs *all, size_t point, dl_status status, const dl_error *error)
{
    pthread_mutex_lock(&all->mutex);
    if (all->status == DL_OK || point < all->failed) {
        all->status = status;
        all->failed = point;
        all->error = *error;
    }
    pthread_mutex_unlock(&all->mutex);
}

static void *work(void *argument)
{
    jobs *all = argument;
    const size_t count = all->simulation->scenario->point_count;
    for (size_t point = take(all); point < count; point = take(all)) {
        dl_error error = {0};
        const dl_status status = simulate_point(all->simulation, point, &all->per_s[point], &error);
        if (status != DL_OK) note_failure(all, point, status, &error);
    }
    return NULL;
}

dl_status dl_table_simulate(const dl_table_simulation *simulation, double *per_s, dl_error *err)
{
    jobs all = {.simulation = simulation,
                .per_s = per_s,
                .mutex = PTHREAD_MUTEX_INITIALIZER,
                .status = DL_OK};
    const int helpers = simulation->threads - 1;
    pthread_t *handles = dl_calloc((size_t)helpers, sizeof *handles, "threads");
    int started = 0, refused = 0;
    for (; started < helpers && refused == 0; started += refused == 0)
        refused = pthread_create(&handles[started], NULL, work, &all);
    if (refused == 0) work(&all);
    for (int t = 0; t < started; t++)
        pthread_join(handles[t], NULL);
    free(handles);
    pthread_mutex_destroy(&all.mutex);
    if (refused != 0) {
        return dl_error_set(err, DL_ERR_SYSTEM, "cannot start thread %d: %s", started + 1,
                            strerror(refused));
    }
    if (all.status != DL_OK && err != NULL) *err = all.error;
    return all.status;
}

/* Of GSL's driver: iterations, least relative change of x = ln(cost), least gradient. */
#define ITERATIONS 30
#define STEP_TOLERANCE 1e-6
#define GRADIENT_TOLERANCE 1e-10

bool dl_table_is_rate(const dl_table_cost *cost)
{
    return dl_ends_with(cost->name, "bytes_per_s");
}

/* Median over the rows of the step's time in ns, over its samples or workers if asked for. */
static double median_step_ns(const dl_table_rows *rows, bool per_sample, bool per_worker)
{
    double *steps = dl_calloc(rows->used, sizeof *steps, "steps of rows");
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
    const double median = gsl_stats_median_from_sorted_data(steps, 1, count);
    free(steps);
    return median;
}

/* Where to look for a cost of which nothing is known: a part of the step. */
static double guess(const dl_table_model *model, const dl_table_cost *cost)
{
    const dl_table_rows *rows = model->rows;
    if (cost->was_known) return cost->value->value;
    if (dl_ends_with(cost->name, "_frac")) return 0.05;
    if (dl_ends_with(cost->name, "per_sample_ns")) return median_step_ns(rows, true, false) / 2;
    if (dl_ends_with(cost->name, "per_worker_ns")) return median_step_ns(rows, false, true) / 2;
    const double step_ns = median_step_ns(rows, false, false);
    if (dl_ends_with(cost->name, "_ns")) return step_ns / 4;
    if (dl_table_is_rate(cost) && model->costs->parameter_bytes > 0) {
        return (double)model->costs->parameter_bytes / dl_ns_to_s(step_ns / 10);
    }
    if (dl_table_is_rate(cost)) return 1e9;                          /* a slow link */
    return dl_ends_with(cost->name, "bytes_per_sample") ? 1e4 : 1.1; /* a small picture; a factor */
}

void dl_table_model_init(dl_table_model *model, const dl_scenario *scenario, dl_costs *costs,
                         const dl_table_rows *rows, const dl_table_costs *unknown, int threads)
{
    *model = (dl_table_model){.scenario = scenario,
                              .costs = costs,
                              .rows = rows,
                              .unknown = unknown,
                              .threads = threads,
                              .steps = DL_TABLE_STEPS,
                              .status = DL_OK};
    model->wanted = dl_calloc(scenario->point_count, sizeof *model->wanted, "points to simulate");
    model->use = dl_calloc(rows->count, sizeof *model->use, "rows that count");
    model->weight = dl_calloc(rows->count, sizeof *model->weight, "weights of rows");
    model->per_s = dl_calloc(scenario->point_count, sizeof *model->per_s, "throughputs");
    for (size_t i = 0; i < rows->count; i++) {
        model->use[i] = !rows->rows[i].failed;
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
    *model = (dl_table_model){0};
}

size_t dl_table_model_rows(const dl_table_model *model)
{
    size_t count = 0;
    for (size_t i = 0; i < model->rows->count; i++)
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

double dl_table_model_low(const dl_table_model *model, size_t cost)
{
    return log(model->guess[cost] / DL_TABLE_RANGE);
}

double dl_table_model_high(const dl_table_model *model, size_t cost)
{
    return log(model->guess[cost] * DL_TABLE_RANGE);
}

double dl_table_model_least(const dl_table_model *model, size_t cost)
{
    return dl_table_is_rate(&model->unknown->items[cost]) ? dl_table_model_high(model, cost)
                                                          : dl_table_model_low(model, cost);
}

static void set_costs(dl_table_model *model, const double *x)
{
    for (size_t j = 0; j < model->unknown->count; j++) {
        const double low = dl_table_model_low(model, j), high = dl_table_model_high(model, j);
        const dl_value value = {.known = true, .value = exp(fmin(fmax(x[j], low), high))};
        dl_table_cost_set(&model->unknown->items[j], &value);
    }
}

dl_status dl_table_model_set(dl_table_model *model, const double *x)
{
    if (model->status != DL_OK) return model->status;
    set_costs(model, x);
    memset(model->wanted, 0, model->scenario->point_count * sizeof *model->wanted);
    for (size_t i = 0; i < model->rows->count; i++) {
        if (model->use[i]) model->wanted[model->rows->rows[i].at] = true;
    }
    for (size_t p = 0; p < model->scenario->point_count; p++)
        model->runs += 2 * model->wanted[p];
    const dl_table_simulation simulation = {.scenario = model->scenario,
                                            .costs = model->costs,
                                            .wanted = model->wanted,
                                            .steps = model->steps,
                                            .threads = model->threads};
    return model->status = dl_table_simulate(&simulation, model->per_s, &model->error);
}

double dl_table_model_residual(const dl_table_model *model, size_t row)
{
    const dl_table_row *r = &model->rows->rows[row];
    /* The simulated batch may be a little larger than the real one; the step's time is the same. */
    const double simulated_per_s = model->per_s[r->at] * (double)r->batch / (double)r->point.batch;
    return log(r->throughput_per_s / simulated_per_s);
}

/* Of the rows that count, each times the root of its weight. */
static void residuals(const dl_table_model *model, gsl_vector *r)
{
    size_t at = 0;
    for (size_t i = 0; i < model->rows->count; i++) {
        if (!model->use[i]) continue;
        gsl_vector_set(r, at++, sqrt(model->weight[i]) * dl_table_model_residual(model, i));
    }
}

double dl_table_model_squares(dl_table_model *model, const double *x)
{
    if (dl_table_model_set(model, x) != DL_OK) return (double)INFINITY;
    double squares = 0;
    for (size_t i = 0; i < model->rows->count; i++) {
        if (!model->use[i]) continue;
        squares += model->weight[i] * pow(dl_table_model_residual(model, i), 2);
    }
    return squares;
}

dl_status dl_table_model_jacobian(dl_table_model *model, const double *x, gsl_matrix *jacobian)
{
    const size_t n = dl_table_model_rows(model);
    double moved[DL_TABLE_COSTS_MAX];
    gsl_vector *up = gsl_vector_alloc(n), *down = gsl_vector_alloc(n);
    dl_status status = DL_OK;
    size_t column = 0;
    for (size_t j = 0; j < model->unknown->count && status == DL_OK; j++) {
        if (!model->active[j]) continue;
        memcpy(moved, x, model->unknown->count * sizeof *moved);
        moved[j] = x[j] + DL_TABLE_DIFFERENCE;
        status = dl_table_model_set(model, moved);
        residuals(model, up);
        moved[j] = x[j] - DL_TABLE_DIFFERENCE;
        if (status == DL_OK) status = dl_table_model_set(model, moved);
        residuals(model, down);
        gsl_vector_sub(up, down);
        gsl_vector_scale(up, 1 / (2 * DL_TABLE_DIFFERENCE));
        gsl_matrix_set_col(jacobian, column++, up);
    }
    gsl_vector_free(up);
    gsl_vector_free(down);
    return status;
}

/* What GSL's callbacks get: the model, and the costs that are not active. */
typedef struct descent {
    dl_table_model *model;
    double x[DL_TABLE_COSTS_MAX];
} descent;

static void spread(descent *down, const gsl_vector *active)
{
    size_t at = 0;
    for (size_t j = 0; j < down->model->unknown->count; j++) {
        if (down->model->active[j]) down->x[j] = gsl_vector_get(active, at++);
    }
}

static int evaluate(const gsl_vector *active, void *user, gsl_vector *r)
{
    descent *down = user;
    spread(down, active);
    if (dl_table_model_set(down->model, down->x) != DL_OK) return GSL_EFAILED;
    residuals(down->model, r);
    return GSL_SUCCESS;
}

static int differentiate(const gsl_vector *active, void *user, gsl_matrix *jacobian)
{
    descent *down = user;
    spread(down, active);
    const dl_status status = dl_table_model_jacobian(down->model, down->x, jacobian);
    return status == DL_OK ? GSL_SUCCESS : GSL_EFAILED;
}

double dl_table_model_descend(dl_table_model *model, double *x)
{
    const size_t n = dl_table_model_rows(model), p = dl_table_model_costs(model);
    if (p == 0) return dl_table_model_squares(model, x);
    descent down = {.model = model};
    memcpy(down.x, x, model->unknown->count * sizeof *x);
    gsl_multifit_nlinear_fdf fdf = {
        .f = evaluate, .df = differentiate, .n = n, .p = p, .params = &down};
    const gsl_multifit_nlinear_parameters parameters = gsl_multifit_nlinear_default_parameters();
    gsl_multifit_nlinear_workspace *work =
        gsl_multifit_nlinear_alloc(gsl_multifit_nlinear_trust, &parameters, n, p);
    gsl_vector *start = gsl_vector_alloc(p);
    for (size_t j = 0, at = 0; j < model->unknown->count; j++) {
        if (model->active[j]) gsl_vector_set(start, at++, x[j]);
    }
    double squares = (double)INFINITY;
    if (gsl_multifit_nlinear_init(start, &fdf, work) == GSL_SUCCESS) {
        int info = 0;
        /* No progress is the usual end in a kink; a failed run is in model->status. */
        const int end = gsl_multifit_nlinear_driver(ITERATIONS, STEP_TOLERANCE, GRADIENT_TOLERANCE,
                                                    0, NULL, NULL, &info, work);
        (void)end;
        spread(&down, gsl_multifit_nlinear_position(work));
        if (model->status == DL_OK) squares = dl_table_model_squares(model, down.x);
    }
    gsl_vector_free(start);
    gsl_multifit_nlinear_free(work);
    memcpy(x, down.x, model->unknown->count * sizeof *x);
    return squares;
}

typedef struct start {
    double squares, x[DL_TABLE_COSTS_MAX];
} start;

DL_ORDER(by_squares, start, DL_BY(squares));

/* `count` starts, the best first. */
static void list_starts(dl_table_model *model, start *starts, size_t count)
{
    const size_t p = model->unknown->count;
    gsl_qrng *sobol = gsl_qrng_alloc(gsl_qrng_sobol, (unsigned)p);
    double u[DL_TABLE_COSTS_MAX];
    for (size_t s = 0; s < count; s++) {
        gsl_qrng_get(sobol, u); /* the first is the middle: the guess */
        for (size_t j = 0; j < p; j++)
            starts[s].x[j] = log(model->guess[j]) + (2 * u[j] - 1) * log(DL_TABLE_SPAN);
        starts[s].squares = dl_table_model_squares(model, starts[s].x);
    }
    gsl_qrng_free(sobol);
    qsort(starts, count, sizeof *starts, by_squares);
}

static bool is_exact(const dl_table_model *model, double squares)
{
    return squares <= DL_TABLE_EXACT * DL_TABLE_EXACT * (double)dl_table_model_rows(model);
}

/* Goes down from `from`, and keeps the end in *best if it is lower. */
static void try_from(dl_table_model *model, const start *from, start *best)
{
    if (is_exact(model, best->squares)) return;
    start end = *from;
    end.squares = dl_table_model_descend(model, end.x);
    if (end.squares < best->squares) *best = end;
}

double dl_table_model_search(dl_table_model *model, bool near, double *x)
{
    static const double jolts[] = {4, 0.25}; /* large enough to leave a flat part or a kink */
    const size_t count = near ? 1 : DL_TABLE_STARTS, descents = near ? 1 : DL_TABLE_DESCENTS;
    start *starts = dl_calloc(count, sizeof *starts, "starts");
    model->steps = near ? DL_TABLE_NEAR_STEPS / 2 : DL_TABLE_SEARCH_STEPS;
    list_starts(model, starts, count);
    start best = starts[0];
    for (size_t s = 0; s < descents && model->status == DL_OK; s++)
        try_from(model, &starts[s], &best);
    free(starts);
    for (size_t j = 0; j < model->unknown->count && !near; j++) {
        for (size_t k = 0; k < 2 && model->status == DL_OK; k++) {
            start moved = best;
            moved.x[j] += log(jolts[k]);
            try_from(model, &moved, &best);
        }
    }
    model->steps = near ? DL_TABLE_NEAR_STEPS : DL_TABLE_STEPS;
    memcpy(x, best.x, model->unknown->count * sizeof *x);
    return dl_table_model_descend(model, x);
}
