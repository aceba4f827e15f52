#include "sim/sweep.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/units.h"
#include "sim/run_pipeline.h"
#include "sim/sweep_rows.h"

/* One variant's work: for each point, the baselines' after the scenario's, the runs with the costs as
 * they are, those with drawn costs and, where compute was scaled, two more: it as slow, and as fast,
 * as it may be. */
typedef struct part {
    const dl_scenario *scenario;
    const dl_costs *costs;
    const dl_scaling *scaling;
    dl_point *points;
    size_t point_count, visible;
    size_t *baseline; /* [visible] index in points */
    bool *fits;       /* [point_count] into its GPUs */
    int64_t central, drawn, extra; /* runs of a point */
    int64_t first, runs;
    dl_run_result *results; /* [runs] */
} part;

typedef struct jobs {
    const dl_sweep_config *config;
    part *parts;
    size_t part_count;
    int64_t runs, next, done; /* next and done: under the mutex */
    dl_status status;         /* the first failure in order of jobs; under the mutex */
    int64_t failed_run;
    dl_error error;
    pthread_mutex_t mutex;
} jobs;

static dl_point baseline_of(const dl_scenario *scenario, const dl_point *point)
{
    int64_t batch = scenario->batch_per_worker ? point->batch / point->workers : point->batch;
    dl_point baseline = {.cores = point->cores == DL_CORES_GPU ? DL_CORES_GPU : 1,
                         .workers = 1,
                         .batch = batch,
                         .mode = &dl_mode_none};
    for (int o = 0; o < DL_SYNC_SWEPT; o++)
        baseline.option[o] = dl_sync_options[o].fallback;
    return baseline;
}

static void list_points(part *p)
{
    const dl_scenario *scenario = p->scenario;
    size_t visible = scenario->point_count;
    p->visible = p->point_count = visible;
    p->points = dl_calloc(2 * visible, sizeof *p->points, "points and baselines");
    p->baseline = dl_calloc(visible, sizeof *p->baseline, "baselines");
    memcpy(p->points, scenario->points, visible * sizeof *p->points);
    for (size_t i = 0; i < visible; i++) {
        dl_point baseline = baseline_of(scenario, &scenario->points[i]);
        size_t b = visible;
        while (b < p->point_count && p->points[b].batch != baseline.batch)
            b++;
        if (b == p->point_count) p->points[p->point_count++] = baseline;
        p->baseline[i] = b;
    }
    p->fits = dl_calloc(p->point_count, sizeof *p->fits, "points that fit");
    for (size_t i = 0; i < p->point_count; i++) {
        dl_gpu_memory memory = dl_run_memory(scenario, p->costs, &p->points[i]);
        p->fits[i] = !(memory.needs_bytes > memory.has_bytes);
    }
}

static void init_part(part *p, const dl_variant *variant, int64_t first)
{
    *p = (part){.scenario = &variant->scenario,
                .costs = &variant->costs,
                .scaling = &variant->scaling,
                .first = first};
    list_points(p);
    const int64_t replicates = p->scenario->replicates;
    p->central = dl_run_varies(p->scenario, p->costs) ? replicates : 1;
    p->drawn = replicates > 1 && dl_costs_have_errors(p->costs) ? replicates : 0;
    p->extra = p->scaling->scaled ? 2 : 0;
    p->runs = (int64_t)p->point_count * (p->central + p->drawn + p->extra);
    p->results = dl_calloc((size_t)p->runs, sizeof *p->results, "results");
}

static void free_part(part *p)
{
    for (int64_t run = 0; run < p->runs; run++)
        dl_run_result_free(&p->results[run]);
    free(p->results);
    free(p->points);
    free(p->baseline);
    free(p->fits);
}

char *dl_sweep_missing(const dl_scenario *scenario, const dl_costs *costs)
{
    unsigned needs = 0;
    char *layers = NULL;
    for (size_t i = 0; i < scenario->point_count; i++) {
        const dl_point *point = &scenario->points[i];
        needs |= dl_run_needs(scenario, point);
        if (dl_point_is_split(point) && layers == NULL) {
            layers = dl_run_split_missing(scenario, costs, point);
        }
    }
    char *missing = dl_costs_missing(costs, needs);
    if (missing == NULL || layers == NULL) return missing != NULL ? missing : layers;
    char *both = dl_format("%s, %s", missing, layers);
    free(missing);
    free(layers);
    return both;
}

/* The number of the next job, or -1. */
static int64_t take(jobs *all)
{
    pthread_mutex_lock(&all->mutex);
    int64_t run = all->next < all->runs && all->status == DL_OK ? all->next++ : -1;
    pthread_mutex_unlock(&all->mutex);
    return run;
}

static void note_done(jobs *all, int64_t run, dl_status status, const dl_error *error)
{
    pthread_mutex_lock(&all->mutex);
    all->done++;
    if (status != DL_OK && (all->status == DL_OK || run < all->failed_run)) {
        all->status = status;
        all->failed_run = run;
        all->error = *error;
    }
    if (all->config->progress != NULL) {
        all->config->progress(all->config->user, all->done, all->runs);
    }
    pthread_mutex_unlock(&all->mutex);
}

static dl_status run_one(part *p, int64_t run, dl_error *err)
{
    const int64_t each = p->central + p->drawn + p->extra;
    const size_t point = (size_t)(run / each);
    const int64_t draw = run % each - p->central, extra = draw - p->drawn;
    const bool is_drawn = draw >= 0 && extra < 0;
    const dl_run_config config = {
        .scenario = p->scenario,
        .costs = p->costs,
        .point = &p->points[point],
        .replicate = (uint32_t)(is_drawn ? draw : draw < 0 ? run % each : 0),
        .draw = is_drawn ? (uint32_t)draw + 1 : 0,
        .without_slow = point >= p->visible,
        .compute_log = extra < 0 ? 0 : extra == 0 ? DL_SCALING_SPREAD : -DL_SCALING_SPREAD,
    };
    return p->fits[point] ? dl_run(&config, &p->results[run], err) : DL_OK;
}

static void *work(void *argument)
{
    jobs *all = argument;
    for (int64_t run = take(all); run >= 0; run = take(all)) {
        size_t last = all->part_count - 1;
        while (all->parts[last].first > run)
            last--;
        dl_error error = {0};
        dl_status status = run_one(&all->parts[last], run - all->parts[last].first, &error);
        note_done(all, run, status, &error);
    }
    return NULL;
}

static dl_status run_all(jobs *all, dl_error *err)
{
    int threads = all->config->threads;
    if (threads > all->runs) threads = (int)all->runs;
    pthread_t *handles = dl_calloc((size_t)threads, sizeof *handles, "threads");
    int started = 0, refused = 0;
    for (; started < threads - 1 && refused == 0; started += refused == 0) {
        refused = pthread_create(&handles[started], NULL, work, all);
    }
    if (refused == 0) work(all);
    for (int t = 0; t < started; t++)
        pthread_join(handles[t], NULL);
    free(handles);
    if (refused != 0) {
        return dl_error_set(err, DL_ERR_SYSTEM, "cannot start thread %d: %s", started + 1,
                            strerror(refused));
    }
    if (all->status != DL_OK && err != NULL) *err = all->error;
    return all->status;
}

static dl_row_runs runs_of(const part *p, size_t point)
{
    const dl_run_result *runs =
        &p->results[(int64_t)point * (p->central + p->drawn + p->extra)];
    return (dl_row_runs){
        .central = runs,
        .central_count = p->central,
        .drawn = runs + p->central,
        .drawn_count = p->drawn,
        .scaled = p->extra > 0 ? runs + p->central + p->drawn : NULL,
    };
}

static void set_row(dl_row *row, const part *p, size_t index, size_t variant)
{
    const size_t base = p->baseline[index];
    *row = (dl_row){.variant = variant,
                    .point = p->points[index],
                    .memory = dl_run_memory(p->scenario, p->costs, &p->points[index])};
    row->origin =
        p->scaling->differs ? DL_ORIGIN_ASSUMED : dl_run_origin(p->scenario, p->costs, &row->point);
    row->extrapolated = dl_run_extrapolates(p->costs, &row->point) ||
                        dl_run_extrapolates(p->costs, &p->points[base]);
    if (!p->fits[index]) {
        dl_row_set_unfit(row);
        return;
    }
    const dl_row_runs runs = runs_of(p, index), base_runs = runs_of(p, base);
    dl_row_set(row, &runs, p->fits[base] ? &base_runs : NULL, p->scenario->replicates > 1);
}

static void collect(dl_sweep *sweep, const jobs *all)
{
    *sweep = (dl_sweep){.runs = all->runs};
    for (size_t v = 0; v < all->part_count; v++)
        sweep->row_count += all->parts[v].visible;
    sweep->rows = dl_calloc(sweep->row_count, sizeof *sweep->rows, "rows");
    dl_row *row = sweep->rows;
    for (size_t v = 0; v < all->part_count; v++) {
        const part *p = &all->parts[v];
        for (size_t i = 0; i < p->visible; i++)
            set_row(row++, p, i, v);
        for (int64_t run = 0; run < p->runs; run++)
            sweep->events += p->results[run].events;
    }
}

static dl_status check_missing(const dl_study *study, dl_error *err)
{
    const char *path = NULL;
    char *missing = dl_study_missing(study, &path);
    if (missing == NULL) return DL_OK;
    dl_error_set_at(err, DL_ERR_DATA, path, 0, "costs are missing: %s", missing);
    free(missing);
    return DL_ERR_DATA;
}

dl_status dl_sweep_run(dl_sweep *sweep, const dl_study *study, const dl_sweep_config *config,
                       dl_error *err)
{
    dl_status status = check_missing(study, err);
    if (status != DL_OK) return status;
    int64_t start_ns = dl_clock_ns();
    jobs all = {.config = config, .part_count = study->variant_count};
    all.parts = dl_calloc(all.part_count, sizeof *all.parts, "variants");
    for (size_t v = 0; v < all.part_count; v++) {
        init_part(&all.parts[v], &study->variants[v], all.runs);
        all.runs += all.parts[v].runs;
    }
    pthread_mutex_init(&all.mutex, NULL);
    status = run_all(&all, err);
    if (status == DL_OK) {
        collect(sweep, &all);
        sweep->seconds = dl_ns_to_s((double)(dl_clock_ns() - start_ns));
    }
    pthread_mutex_destroy(&all.mutex);
    for (size_t v = 0; v < all.part_count; v++)
        free_part(&all.parts[v]);
    free(all.parts);
    return status;
}

void dl_sweep_free(dl_sweep *sweep)
{
    for (size_t i = 0; i < sweep->row_count; i++) {
        dl_run_result_free(&sweep->rows[i].mean);
        free(sweep->rows[i].worker_staleness);
        free(sweep->rows[i].error);
    }
    free(sweep->rows);
    *sweep = (dl_sweep){0};
}
