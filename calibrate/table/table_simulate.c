#include "calibrate/table/table_simulate.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "sim/run.h"

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
