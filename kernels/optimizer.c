#include "kernels/optimizer.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/names.h"
#include "kernels/backend.h"

#define RMSPROP_DECAY 0.9
#define ADAM_DECAY1 0.9
#define ADAM_DECAY2 0.999
#define EPSILON 1e-8

/* In the order of dl_optimizer_names. */
typedef enum update_method { SGD, RMSPROP, ADAM, METHODS } update_method;

struct dl_optimizer {
    update_method method;
    const dl_backend *backend;
    double learning_rate, momentum, rate_factor;
    size_t count;       /* numbers of a vector */
    size_t state_count; /* numbers of the state: 0, 1 or 2 vectors */
    void *state;        /* NULL if state_count = 0 */
    int64_t updates;    /* number of updates begun */
};

const char *const dl_optimizer_names[] = {"sgd", "rmsprop", "adam", NULL};

static dl_status check_config(const dl_optimizer_config *config, update_method *method,
                              dl_error *err)
{
    const int found = dl_names_find(config->name, dl_optimizer_names, METHODS);
    if (found < 0) {
        char hint[DL_ERROR_TEXT_BYTES / 2];
        dl_names_hint(hint, sizeof hint, config->name, dl_optimizer_names, METHODS);
        return dl_error_set(err, DL_ERR_NAME, "unknown optimizer '%s'%s", config->name, hint);
    }
    if (!(config->learning_rate > 0) || !isfinite(config->learning_rate)) {
        return dl_error_set(err, DL_ERR_RANGE, "learning rate %g; must be above 0",
                            config->learning_rate);
    }
    if (!(config->momentum >= 0 && config->momentum < 1)) {
        return dl_error_set(err, DL_ERR_RANGE, "momentum %g; must be in [0, 1)", config->momentum);
    }
    *method = (update_method)found;
    return DL_OK;
}

dl_status dl_optimizer_create(dl_optimizer **optimizer, const dl_optimizer_config *config,
                              dl_precision precision, size_t count, dl_error *err)
{
    return dl_optimizer_create_on(optimizer, config, dl_backend_cpu(precision), count, err);
}

dl_status dl_optimizer_create_on(dl_optimizer **optimizer, const dl_optimizer_config *config,
                                 const dl_backend *backend, size_t count, dl_error *err)
{
    update_method chosen = SGD;
    dl_status status = check_config(config, &chosen, err);
    if (status != DL_OK) return status;
    const size_t state_vectors[METHODS] = {[SGD] = config->momentum > 0, [RMSPROP] = 1, [ADAM] = 2};
    dl_optimizer *made = dl_calloc(1, sizeof *made, "optimizer");
    made->method = chosen;
    made->backend = backend;
    made->learning_rate = config->learning_rate;
    made->momentum = config->momentum;
    made->rate_factor = 1;
    made->count = count;
    made->state_count = state_vectors[chosen] * count;
    if (made->state_count > 0) {
        made->state = backend->allocate(made->state_count * dl_precision_bytes(backend->precision),
                                        "optimizer state");
        status = backend->wait(err);
    }
    if (status == DL_OK) {
        *optimizer = made;
    } else {
        dl_optimizer_destroy(made);
    }
    return status;
}

void dl_optimizer_destroy(dl_optimizer *optimizer)
{
    if (!optimizer) return;
    optimizer->backend->release(optimizer->state);
    free(optimizer);
}

void dl_optimizer_begin(dl_optimizer *optimizer)
{
    optimizer->updates++;
}

void dl_optimizer_scale_rate(dl_optimizer *optimizer, double factor)
{
    optimizer->rate_factor = factor;
}

void dl_optimizer_apply(dl_optimizer *optimizer, void *parameters, const void *gradients,
                        size_t first, size_t count)
{
    const size_t bytes = dl_precision_bytes(optimizer->backend->precision);
    DL_ASSERT(optimizer->updates > 0 || count == 0, "apply of %zu numbers before begin", count);
    DL_ASSERT(first <= optimizer->count && count <= optimizer->count - first,
              "range %zu + %zu of %zu", first, count, optimizer->count);
    dl_update update = {.parameters = (char *)parameters + first * bytes,
                        .gradients = (const char *)gradients + first * bytes,
                        .count = count,
                        .rate = optimizer->rate_factor * optimizer->learning_rate};
    if (optimizer->state_count > 0) {
        update.first = (char *)optimizer->state + first * bytes;
    }
    if (optimizer->state_count > optimizer->count) {
        update.second = (char *)optimizer->state + (optimizer->count + first) * bytes;
    }
    switch (optimizer->method) {
    case SGD:
        update.decay1 = optimizer->momentum;
        optimizer->backend->sgd(&update);
        break;
    case RMSPROP:
        update.decay1 = RMSPROP_DECAY;
        update.epsilon = EPSILON;
        optimizer->backend->rmsprop(&update);
        break;
    default:
        update.decay1 = ADAM_DECAY1;
        update.decay2 = ADAM_DECAY2;
        update.correction1 = 1 - pow(ADAM_DECAY1, (double)optimizer->updates);
        update.correction2 = 1 - pow(ADAM_DECAY2, (double)optimizer->updates);
        update.epsilon = EPSILON;
        optimizer->backend->adam(&update);
        break;
    }
}

void *dl_optimizer_state(dl_optimizer *optimizer, size_t *count)
{
    *count = optimizer->state_count;
    return optimizer->state;
}
