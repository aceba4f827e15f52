#include "kernels/train/train_replay_parameters.h"

#include <cblas.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "kernels/exchange.h"

static bool is_local(const dl_replay_parameters *p)
{
    return p->schedule->events[0].kind != DL_SCHEDULE_GRADIENT;
}

/* y += a x, and x = a x. */
static void add_scaled(const dl_replay_parameters *p, void *y, const void *x, double a)
{
    if (p->config->precision == DL_FLOAT) {
        cblas_saxpy((blasint)p->count, (float)a, x, 1, y, 1);
    } else {
        cblas_daxpy((blasint)p->count, a, x, 1, y, 1);
    }
}

static void scale(const dl_replay_parameters *p, void *x, double a)
{
    if (a == 1) return;
    if (p->config->precision == DL_FLOAT) {
        cblas_sscal((blasint)p->count, (float)a, x, 1);
    } else {
        cblas_dscal((blasint)p->count, a, x, 1);
    }
}

static void update(dl_replay_parameters *p, dl_optimizer *optimizer, void *parameters,
                   const void *gradients, int64_t applied)
{
    dl_optimizer_scale_rate(optimizer,
                            dl_train_rate_factor(p->config, p->set_size, applied * p->share));
    dl_optimizer_begin(optimizer);
    dl_optimizer_apply(optimizer, parameters, gradients, 0, p->count);
}

/* Whether another gradient of the same update comes before the event, or behind it. */
static bool shares_update(const dl_replay_parameters *p, size_t event, size_t other)
{
    const dl_schedule_event *events = p->schedule->events;
    return other < p->schedule->count && events[event].update == events[other].update;
}

static void note_point(dl_replay_parameters *p, const dl_schedule_event *event,
                       const void *parameters)
{
    const int64_t steps = p->gradients / p->schedule->workers;
    if (!dl_train_points_due(&p->points, steps, p->config->evaluate_every)) return;
    dl_train_points_add(&p->points,
                        &(dl_train_point){.update = p->updates,
                                          .samples = p->gradients * p->share,
                                          .simulated_s = event->time_s,
                                          .parameters = dl_train_as_double(parameters, p->count,
                                                                           p->config->precision)});
}

static void apply_gradient(dl_replay_parameters *p, size_t row, void *gradient)
{
    const dl_schedule_event *event = &p->schedule->events[row];
    const bool first = row == 0 || !shares_update(p, row, row - 1);
    const bool last = !shares_update(p, row, row + 1);
    const int64_t staleness = event->update - 1 - event->read;
    const double factor = p->config->staleness_rate ? dl_train_staleness_rate(staleness) : 1;
    size_t together = 1;
    if (first && last) {
        scale(p, gradient, factor);
    } else if (first) {
        memcpy(p->sum, gradient, p->bytes);
        scale(p, p->sum, factor);
    } else {
        add_scaled(p, p->sum, gradient, factor);
    }
    p->gradients++;
    if (!last) return;
    while (together <= row && shares_update(p, row, row - together))
        together++;
    if (!first) scale(p, p->sum, 1.0 / (double)together);
    void *before = p->versions[(size_t)p->updates % p->version_count];
    p->updates = event->update;
    void *now = p->versions[(size_t)p->updates % p->version_count];
    if (now != before) memcpy(now, before, p->bytes);
    update(p, p->optimizers[0], now, first ? gradient : p->sum, p->gradients - (int64_t)together);
    note_point(p, event, now);
}

/* Puts the mean of all workers' vectors in their places. */
static void average_all(const dl_replay_parameters *p, void *const *vectors, size_t count)
{
    const int workers = p->schedule->workers;
    const dl_precision precision = p->config->precision;
    dl_exchange_average(vectors[0], (const void *const *)vectors, workers, 0, count, precision);
    for (int w = 1; w < workers; w++)
        memcpy(vectors[w], vectors[0], count * dl_precision_bytes(precision));
}

static void apply_average(dl_replay_parameters *p, const dl_schedule_event *event)
{
    if (p->schedule->workers > 1) p->updates = event->update;
    average_all(p, p->versions, p->count);
    if (p->config->average_state) {
        size_t count = 0;
        void **states = dl_calloc(p->optimizer_count, sizeof *states, "optimizer states");
        for (size_t w = 0; w < p->optimizer_count; w++)
            states[w] = dl_optimizer_state(p->optimizers[w], &count);
        if (count > 0) average_all(p, states, count);
        free(states);
    }
    note_point(p, event, p->versions[0]);
}

void dl_replay_parameters_apply(dl_replay_parameters *p, size_t row, void *gradient, double loss)
{
    const dl_schedule_event *event = &p->schedule->events[row];
    if (event->kind == DL_SCHEDULE_AVERAGE) {
        apply_average(p, event);
        return;
    }
    if (p->gradients == 0) p->first_loss = loss;
    p->last_loss = loss;
    dl_train_points_loss(&p->points, loss);
    if (event->kind == DL_SCHEDULE_GRADIENT) {
        apply_gradient(p, row, gradient);
        return;
    }
    update(p, p->optimizers[event->worker], p->versions[event->worker], gradient, p->gradients);
    p->gradients++;
    if (p->schedule->workers > 1) return;
    /* Nobody to average with: each step is an update. */
    p->updates = p->gradients;
    note_point(p, event, p->versions[0]);
}

const void *dl_replay_parameters_of(const dl_replay_parameters *p, const dl_schedule_event *event)
{
    const bool local = event->kind == DL_SCHEDULE_LOCAL;
    return p->versions[local ? (size_t)event->worker : (size_t)event->read % p->version_count];
}

dl_status dl_replay_parameters_init(dl_replay_parameters *p, const dl_train_config *config,
                                    const dl_schedule *schedule, size_t set_size, const void *first,
                                    size_t count, dl_error *err)
{
    const size_t workers = (size_t)schedule->workers;
    *p = (dl_replay_parameters){.config = config,
                                .schedule = schedule,
                                .set_size = set_size,
                                .count = count,
                                .bytes = count * dl_precision_bytes(config->precision),
                                .share = schedule->batch / schedule->workers};
    p->version_count = is_local(p) ? workers : (size_t)schedule->staleness_max + 1;
    p->versions = dl_calloc(p->version_count, sizeof *p->versions, "versions");
    for (size_t v = 0; v < p->version_count; v++) {
        p->versions[v] = dl_alloc_staggered(p->bytes, "version of the parameters");
        memcpy(p->versions[v], first, p->bytes);
    }
    p->sum = dl_alloc_staggered(p->bytes, "sum of gradients");
    p->optimizer_count = is_local(p) ? workers : 1;
    p->optimizers = dl_calloc(p->optimizer_count, sizeof(dl_optimizer *), "optimizers");
    dl_status status = DL_OK;
    for (size_t o = 0; status == DL_OK && o < p->optimizer_count; o++) {
        status = dl_optimizer_create(&p->optimizers[o], &config->optimizer, config->precision,
                                     count, err);
    }
    return status;
}

void dl_replay_parameters_result(dl_replay_parameters *p, dl_train_result *result)
{
    *result = (dl_train_result){
        .first_loss = p->first_loss,
        .last_loss = p->last_loss,
        .parameter_count = p->count,
        .updates = p->updates,
        .samples = p->gradients * p->share,
    };
    void *last = p->versions[is_local(p) ? 0 : (size_t)p->updates % p->version_count];
    if (is_local(p)) average_all(p, p->versions, p->count);
    result->parameters = dl_train_as_double(last, p->count, p->config->precision);
    dl_train_points_take(&p->points, result);
}

void dl_replay_parameters_free(dl_replay_parameters *p)
{
    for (size_t v = 0; p->versions != NULL && v < p->version_count; v++)
        dl_free_staggered(p->versions[v]);
    for (size_t o = 0; p->optimizers != NULL && o < p->optimizer_count; o++)
        dl_optimizer_destroy(p->optimizers[o]);
    free(p->versions);
    free(p->optimizers);
    dl_free_staggered(p->sum);
    dl_train_points_free(&p->points);
}
