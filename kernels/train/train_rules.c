/* Update rules: arithmetic on parameters and gradients, in the same order for runs and replays of
 * schedules, so that a replay equals the run bit for bit. */
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "kernels/train/train_internal.h"

/* Factor on the learning rate where it drops, as lr_factor of MXNet's train_mnist.py. */
#define DROP_FACTOR 0.1

void dl_train_scale(void *vector, size_t count, dl_precision precision, double factor)
{
    if (factor == 1) return;
    if (precision == DL_FLOAT) {
        float *scaled = vector;
        for (size_t i = 0; i < count; i++)
            scaled[i] *= (float)factor;
    } else {
        double *scaled = vector;
        for (size_t i = 0; i < count; i++)
            scaled[i] *= factor;
    }
}

/* Slice boundaries are multiples of this many numbers: 64 bytes of float, so that no two workers
 * write the same cache line. */
#define SLICE_NUMBERS 16

void dl_train_slice_of(size_t count, int parts, int index, size_t *first, size_t *size)
{
    const size_t units = (count + SLICE_NUMBERS - 1) / SLICE_NUMBERS;
    const size_t begin = units * (size_t)index / (size_t)parts * SLICE_NUMBERS;
    const size_t end = units * (size_t)(index + 1) / (size_t)parts * SLICE_NUMBERS;
    *first = begin;
    *size = (end < count ? end : count) - begin;
}

double dl_train_staleness_rate(int64_t staleness)
{
    return staleness > 1 ? 1.0 / (double)staleness : 1;
}

/* Factor on the learning rate after gradients of `samples` samples, of a set of `count`, have been
 * applied (config.drop_epochs). */
static double rate_factor(const dl_train_config *config, size_t count, int64_t samples)
{
    const bool dropped =
        config->drop_epochs > 0 && (double)samples >= config->drop_epochs * (double)count;
    return dropped ? DROP_FACTOR : 1;
}

void dl_train_begin_update(dl_optimizer *optimizer, const dl_train_config *config,
                           size_t data_count, int64_t samples)
{
    dl_optimizer_scale_rate(optimizer, rate_factor(config, data_count, samples));
    dl_optimizer_begin(optimizer);
}

dl_fragment dl_fragment_of(size_t count, int fragments, int index)
{
    dl_fragment made = {.index = index};
    dl_train_slice_of(count, fragments, index, &made.first, &made.count);
    return made;
}

/* Returns how many of the layer's numbers first ... first + count - 1 are in the fragment. */
static size_t common_count(const dl_fragment *fragment, size_t first, size_t count)
{
    const size_t end = first + count, fragment_end = fragment->first + fragment->count;
    const size_t from = first > fragment->first ? first : fragment->first;
    const size_t to = end < fragment_end ? end : fragment_end;
    return to > from ? to - from : 0;
}

dl_quantise_plan *dl_fragment_plans(const dl_model *model, const dl_train_config *config,
                                    int fragments)
{
    const size_t all = dl_model_parameter_count(model);
    dl_quantise_plan *plans = dl_calloc((size_t)fragments, sizeof *plans, "plans of messages");
    for (int f = 0; f < fragments; f++) {
        const dl_fragment fragment = dl_fragment_of(all, fragments, f);
        dl_quantise_plan_init(&plans[f], config->quantise);
        plans[f].kept_frac = config->topk_frac;
        for (int op = 0; op < dl_model_operation_count(model); op++) {
            size_t first, count;
            dl_model_operation_parameters(model, op, &first, &count);
            dl_quantise_plan_add(&plans[f], common_count(&fragment, first, count));
        }
        DL_ASSERT(plans[f].count == fragment.count, "%zu of %zu numbers", plans[f].count,
                  fragment.count);
    }
    return plans;
}

void dl_fragment_plans_free(dl_quantise_plan *plans, int fragments)
{
    for (int f = 0; plans != NULL && f < fragments; f++)
        dl_quantise_plan_free(&plans[f]);
    free(plans);
}

void dl_train_encode_change(const dl_quantise_plan *plan, void *change, const void *parameters,
                            const void *start, void *residual, void *message,
                            dl_precision precision)
{
    memcpy(change, parameters, plan->count * dl_precision_bytes(precision));
    dl_exchange_add(change, start, -1, plan->count, precision);
    dl_quantise_encode(plan, change, residual, message, precision);
}

void dl_train_end_average(const dl_train_config *config, void *average, void *start, void *velocity,
                          size_t first, size_t count)
{
    const size_t number_bytes = dl_precision_bytes(config->precision);
    char *of = (char *)average + first * number_bytes, *from = (char *)start + first * number_bytes;
    if (config->quantise != DL_QUANTISE_NONE)
        dl_exchange_add(of, from, 1, count, config->precision);
    if (config->outer.kind != DL_OUTER_NONE) {
        dl_exchange_outer(start, average, velocity, &config->outer, first, count,
                          config->precision);
    } else {
        memcpy(from, of, count * number_bytes);
    }
}

void dl_train_end_merge(const dl_train_config *config, void *sum, int uploads, const void *before,
                        void *outer, void *velocity, size_t count)
{
    dl_train_scale(sum, count, config->precision, 1.0 / uploads);
    dl_exchange_add(sum, before, 1, count, config->precision);
    if (outer == NULL) return;
    dl_exchange_outer(outer, sum, velocity, &config->outer, 0, count, config->precision);
    memcpy(sum, outer, count * dl_precision_bytes(config->precision));
}
