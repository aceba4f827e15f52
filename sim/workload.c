#include "sim/workload.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/units.h"
#include "sim/collective/collective.h"
#include "sim/statistics.h"

/* Largest factor, up or down, of a drawn start from the median: with two or three measured starts,
 * Student's distribution has unrealistic tails. */
#define START_FACTOR_MAX 10.0

static double ns_per_byte(const dl_value *bytes_per_s)
{
    return bytes_per_s->known ? DL_NS_PER_S / bytes_per_s->value : 0;
}

static double or_endless(const dl_value *value, double scale)
{
    return value->known ? value->value * scale : INFINITY;
}

static double not_negative(double ns)
{
    return ns > 0 ? ns : 0;
}

/* Vectors read and written by an outer optimizer with momentum: one pass computes the difference
 * from the average and the new momentum, another pass the parameters. */
#define OUTER_READS (3 + 2)
#define OUTER_WRITES (1 + 1)

/* Number of vectors that a server's optimizer reads or writes in a separate pass after the sum:
 * `given` if known; otherwise, for an assumed update rate, the state plus `others`: the sum (read)
 * and the parameters (read and written). 0 if a measured rate includes the optimizer, if there is
 * no state, or if the costs have no update operation, as the update is then part of the worker's
 * step. */
static int passed_vectors(const dl_costs *costs, const dl_value *given, int others)
{
    if (given->known) return (int)given->value;
    if (costs->update.read_bytes_per_s.origin != DL_ORIGIN_ASSUMED || costs->state_bytes <= 0 ||
        costs->parameter_bytes <= 0 || !(dl_costs_step_ns(costs, 1, "update") > 0))
        return 0;
    return others + (int)lround((double)costs->state_bytes / (double)costs->parameter_bytes);
}

void dl_workload_init(dl_workload *workload, const dl_costs *costs, double batch)
{
    double backward_ns = dl_costs_step_ns(costs, batch, "backward");
    double compute_ns = not_negative(dl_costs_step_ns(costs, batch, "forward") + backward_ns);
    *workload = (dl_workload){
        .input_ns = not_negative(dl_costs_step_ns(costs, batch, "input")),
        .dispatch_ns = not_negative(dl_costs_step_ns(costs, batch, "dispatch")),
        .compute_ns = compute_ns,
        .backward_ns = fmin(not_negative(backward_ns), compute_ns),
        .update_ns = not_negative(dl_costs_step_ns(costs, batch, "update")),
        .bucket_ns = not_negative(dl_costs_step_ns(costs, batch, "bucket")),
        .parameter_bytes = not_negative((double)costs->parameter_bytes),
        .state_bytes = not_negative((double)costs->state_bytes),
        .copy = {costs->copy.latency_ns.value, ns_per_byte(&costs->copy.bandwidth_bytes_per_s), 0},
        .average = {costs->average.latency_ns.value, ns_per_byte(&costs->average.read_bytes_per_s),
                    ns_per_byte(&costs->average.write_bytes_per_s)},
        .update = {costs->update.latency_ns.value, ns_per_byte(&costs->update.read_bytes_per_s),
                   ns_per_byte(&costs->update.write_bytes_per_s)},
        .shared_push_ns_per_byte = ns_per_byte(&costs->shared.push_bytes_per_s),
        .shared_average_ns_per_byte = ns_per_byte(&costs->shared.average_bytes_per_s),
        .shared_pull_ns_per_byte = ns_per_byte(&costs->shared.pull_bytes_per_s),
        .optimizer_reads = passed_vectors(costs, &costs->optimizer_reads, 2),
        .optimizer_writes = passed_vectors(costs, &costs->optimizer_writes, 1),
        .passes_are_given = costs->optimizer_reads.known || costs->optimizer_writes.known,
        .outer_reads = costs->outer_reads.known ? (int)costs->outer_reads.value : OUTER_READS,
        .outer_writes = costs->outer_writes.known ? (int)costs->outer_writes.value : OUTER_WRITES,
        .memory_bytes_per_ns = or_endless(&costs->memory_total_bytes_per_s, 1.0 / DL_NS_PER_S),
        .barrier_ns = costs->barrier_ns.value,
        .wakeup_ns = costs->wakeup_ns.value,
        .lock_ns = costs->lock_ns.value,
        .slice_ns = or_endless(&costs->slice_ns, 1),
        .serial_ns = costs->dispatch.serial_ns.value + costs->dispatch.external_ns.value,
        .per_worker_ns = costs->dispatch.per_worker_ns.value,
        .launch_ns = costs->dispatch.launch_ns.known ? costs->dispatch.launch_ns.value : 0,
        .contention_frac =
            costs->dispatch.contention_frac.known ? costs->dispatch.contention_frac.value : 0,
        .overlap_slowdown =
            costs->overlap_slowdown.known ? fmax(1, costs->overlap_slowdown.value) : 1,
        .pageable_bytes_per_s = or_endless(&costs->copy.pageable_bytes_per_s, 1),
        .collectives = costs->collectives,
        .collective_count = costs->collective_count,
        .gradients = costs->gradients,
        .gradient_count = costs->gradient_count,
    };
}

void dl_workload_set_model(dl_workload *workload, const dl_costs *costs, int model, double batch)
{
    const double backward_ns = dl_costs_model_step_ns(costs, model, batch, "backward");
    workload->compute_ns =
        not_negative(dl_costs_model_step_ns(costs, model, batch, "forward") + backward_ns);
    workload->backward_ns = fmin(not_negative(backward_ns), workload->compute_ns);
    workload->update_ns = not_negative(dl_costs_model_step_ns(costs, model, batch, "update"));
    workload->bucket_ns = not_negative(dl_costs_model_step_ns(costs, model, batch, "bucket"));
}

void dl_workload_read_batches(dl_workload *w)
{
    const double half_ns = w->per_worker_ns / 2, forward_ns = w->compute_ns - w->backward_ns;
    if (forward_ns < half_ns) w->per_worker_ns = fmax(w->per_worker_ns, half_ns + w->backward_ns);
}

void dl_workload_accumulate(dl_workload *workload, int micro_batches, bool adds)
{
    workload->input_ns *= micro_batches;
    workload->dispatch_ns *= micro_batches;
    workload->per_worker_ns *= micro_batches;
    workload->compute_ns *= micro_batches;
    if (!adds) return;
    dl_work add = dl_byte_work(&workload->average, workload->parameter_bytes, 2);
    workload->compute_ns += (micro_batches - 1) * add.full_speed_ns;
}

void dl_workload_load_beside(dl_workload *workload, double take_ns)
{
    workload->make_ns = workload->input_ns;
    workload->input_ns = take_ns;
}

static void scale(dl_byte_cost *cost, double factor)
{
    cost->latency_ns *= factor;
    cost->read_ns_per_byte *= factor;
    cost->write_ns_per_byte *= factor;
}

void dl_workload_exchange_run(dl_workload *workload, const dl_exchange_run *run)
{
    scale(&workload->copy, (double)run->copy);
    scale(&workload->average, (double)run->average);
    scale(&workload->update, (double)run->update);
    workload->shared_push_ns_per_byte *= (double)run->shared;
    workload->shared_average_ns_per_byte *= (double)run->shared;
    workload->shared_pull_ns_per_byte *= (double)run->shared;
}

dl_work dl_byte_work(const dl_byte_cost *cost, double bytes, int vectors)
{
    double ns =
        cost->latency_ns + bytes * (vectors * cost->read_ns_per_byte + cost->write_ns_per_byte);
    return (dl_work){.full_speed_ns = not_negative(ns), .traffic_bytes = bytes * (vectors + 1)};
}

void dl_workload_compress(dl_workload *workload, const dl_costs *costs,
                          const dl_compression *compression)
{
    workload->compression = *compression;
    if (compression->kind == DL_COMPRESS_NONE) return;
    workload->encode_ns_per_byte =
        ns_per_byte(&costs->quantise[compression->kind].encode_bytes_per_s);
    workload->decode_ns_per_byte =
        ns_per_byte(&costs->quantise[compression->kind].decode_bytes_per_s);
    workload->learned_ns_per_byte = ns_per_byte(&costs->learned_bytes_per_s);
}

dl_work dl_message_work(const dl_workload *workload, double bytes)
{
    const dl_compression *compression = &workload->compression;
    const double message = dl_compress_bytes(compression, bytes);
    const dl_work quantise = {
        .full_speed_ns = bytes * (workload->encode_ns_per_byte + workload->decode_ns_per_byte),
        .traffic_bytes =
            dl_compress_traffic(compression, bytes) + dl_decompress_traffic(compression, bytes, 1)};
    return dl_work_add(quantise, dl_byte_work(&workload->copy, message, 1));
}

dl_work dl_learned_work(const dl_workload *workload, double bytes, bool copies)
{
    const double vectors = copies ? 5 : 3;
    return (dl_work){.full_speed_ns = vectors / 5 * bytes * workload->learned_ns_per_byte,
                     .traffic_bytes = vectors * bytes};
}

dl_work dl_work_add(dl_work first, dl_work second)
{
    return (dl_work){.full_speed_ns = first.full_speed_ns + second.full_speed_ns,
                     .traffic_bytes = first.traffic_bytes + second.traffic_bytes};
}

int dl_sharing_known(const dl_costs *costs)
{
    int k = DL_SHARING_MAX;
    while (k > 1 && !costs->sharing[k].known)
        k--;
    return k;
}

double dl_sharing(const dl_costs *costs, int k)
{
    int last = dl_sharing_known(costs);
    if (k > last) k = last;
    int low = k, high = k;
    while (low > 1 && !costs->sharing[low].known)
        low--;
    while (!costs->sharing[high].known && high < last)
        high++;
    double at_low = costs->sharing[low].known ? costs->sharing[low].value : 1;
    double at_high = costs->sharing[high].known ? costs->sharing[high].value : at_low;
    if (low == high) return at_low;
    return at_low + (at_high - at_low) * (k - low) / (high - low);
}

double dl_buckets_ns(const dl_process_reduces *reduces, const dl_gradients_ready *gradients,
                     size_t count, double backward_ns)
{
    double end_ns = 0, before_bytes = 0, previous_bytes = 0, previous_ns = 0;
    double hidden_ns = 0, previous_hidden_ns = 0;
    for (size_t i = 0; i + 1 < count; i++) {
        previous_bytes = gradients[i].bytes - before_bytes;
        previous_ns = dl_collective_cost_ns(reduces->alone, previous_bytes);
        hidden_ns += previous_hidden_ns;
        if (reduces->beside != NULL) {
            previous_hidden_ns =
                fmin(previous_ns, dl_collective_cost_ns(reduces->beside, previous_bytes));
        }
        end_ns = fmax(end_ns, gradients[i].share * backward_ns) + previous_ns;
        before_bytes = gradients[i].bytes;
    }
    const double start_ns = gradients[count - 1].share * backward_ns;
    const double bytes = gradients[count - 1].bytes - before_bytes;
    const double alone_ns = dl_collective_cost_ns(reduces->alone, bytes);
    const double backlog_ns = fmax(0, end_ns - start_ns);
    const double left = previous_ns > 0 ? fmin(1, backlog_ns / previous_ns) : 0;
    const double together_ns = reduces->pair != NULL
                                   ? dl_collective_cost_ns(reduces->pair, previous_bytes + bytes)
                                   : previous_ns + alone_ns;
    const double queue_ns = fmax(0, backlog_ns - previous_ns); /* backlog of earlier all-reduces */
    const double after_ns =
        start_ns + queue_ns + alone_ns + left * fmax(0, together_ns - alone_ns) - backward_ns;
    return fmax(0, after_ns) + hidden_ns + (1 - left) * previous_hidden_ns;
}

double dl_side_by_side(const dl_costs *costs, int k, int cores)
{
    return dl_sharing(costs, k) * fmax(1, (double)k / cores);
}

/* The standard deviation of the logarithm of a lognormal variable whose median is 1 and whose
 * standard deviation is `ratio`: with x = exp(s^2), x (x - 1) = ratio^2. */
static double log_sd(double ratio)
{
    const double square = ratio * ratio;
    return sqrt(log1p(2 * square / (1 + sqrt(1 + 4 * square))));
}

/* Draws a time uniformly between its bounds. A rate is recognised by its value being the upper
 * bound, where it has the least effect; its inverse (time per byte) is drawn. */
static void draw_bounded(dl_value *value, double z)
{
    const double u = dl_normal_below(z), low = value->low, high = value->high;
    const bool is_rate = low > 0 && value->value == high;
    value->value = is_rate ? 1 / (1 / high + u * (1 / low - 1 / high)) : low + u * (high - low);
}

/* The value z standard errors from the number, log-normal on either side, with the bounds at 2.5
 * and 97.5 %. */
static double assumed_at(const dl_value *value, double z)
{
    const double end = z < 0 ? value->low : value->high;
    return value->value * pow(end / value->value, fabs(z) / dl_normal_quantile(0.975));
}

/* Moves a value by z standard errors. */
static void move_value(dl_value *value, double low, double high, double z)
{
    if (value->is_assumed) {
        value->value = fmin(fmax(assumed_at(value, z), low), high);
        return;
    }
    if (dl_value_is_bounded(value)) {
        draw_bounded(value, z);
        return;
    }
    if (value->error == 0) return;
    if (value->value > 0) low = fmax(low, 0);
    const double above = value->value - low, below = high - value->value;
    double drawn = value->value + z * value->error;
    if (low >= 0 && above > 0 && high > 1) {
        drawn = low + above * exp(z * log_sd(value->error / above));
    } else if (low >= 0 && above > 0 && below > 0) {
        const double s = value->error * (above + below) / (above * below);
        drawn = low + (above + below) / (1 + below / above * exp(-z * s));
    }
    value->value = fmin(fmax(drawn, low), high);
}

static void draw_bytes(dl_random *stream, int64_t *bytes, double error_bytes)
{
    if (error_bytes <= 0 || *bytes <= 0) return;
    const double z = dl_random_normal(stream);
    *bytes = llround((double)*bytes * exp(z * log_sd(error_bytes / (double)*bytes)));
}

typedef struct drawn_cause {
    unsigned cause;
    double z; /* number of standard errors by which all values of the cause move */
} drawn_cause;

/* One draw of all costs. */
typedef struct cost_draw {
    dl_random *stream;
    struct drawn_cause *causes; /* [count] causes drawn so far */
    size_t count;
} cost_draw;

/* Draws a random number for every value, even if its cause has drawn one already, so that a value's
 * draw does not depend on the causes of others. */
static void draw_value(void *user, dl_value *value, double low, double high)
{
    cost_draw *draw = user;
    if (!value->known) return;
    double z = dl_random_normal(draw->stream);
    size_t c = 0;
    while (c < draw->count && draw->causes[c].cause != value->cause)
        c++;
    if (c < draw->count) z = draw->causes[c].z;
    if (c == draw->count && value->cause != 0) {
        DL_APPEND(draw->causes, draw->count, "causes") = (drawn_cause){value->cause, z};
    }
    move_value(value, low, high, z);
}

/* Number of starts of the benchmark in a section if there are several; otherwise 0. */
static size_t starts_of(const dl_collective_cost *cost)
{
    return cost->start_count > 1 ? cost->start_count : 0;
}

/* Factor of an unmeasured start, from n measured ones with the logarithms x:
 *
 *   ln factor = sum of z_k (x_k - mean of x) / sqrt(c),  z normal, c chi-squared with n - 1 degrees
 *
 * This is Student's t with n - 1 degrees times their standard deviation, the predictive
 * distribution of normal values of unknown variance (Gelman et al., Bayesian Data Analysis, 3.2);
 * the errors of the times cover the unknown center. Sections that share z and c keep their
 * correlation over the starts. */
static double factor_of_start(const dl_collective_cost *cost, const double *normals,
                              const double *squares)
{
    const size_t n = cost->start_count;
    double mean = 0, sum = 0, chi_squared = 0;
    for (size_t k = 0; k < n; k++)
        mean += log((double)cost->starts[k]) / (double)n;
    for (size_t k = 0; k < n; k++)
        sum += normals[k] * (log((double)cost->starts[k]) - mean);
    for (size_t k = 0; k + 1 < n; k++)
        chi_squared += squares[k];
    return fmin(fmax(exp(sum / sqrt(chi_squared)), 1 / START_FACTOR_MAX), START_FACTOR_MAX);
}

static void draw_starts(dl_random *stream, dl_costs *drawn)
{
    size_t most = 0;
    for (size_t i = 0; i < drawn->collective_count; i++) {
        if (starts_of(&drawn->collectives[i]) > most) most = drawn->collectives[i].start_count;
    }
    if (most == 0) return;
    double *normals = dl_calloc(2 * most, sizeof *normals, "a start"), *squares = normals + most;
    for (size_t k = 0; k < 2 * most; k++)
        normals[k] = dl_random_normal(stream);
    for (size_t k = 0; k < most; k++)
        squares[k] *= squares[k];
    for (size_t i = 0; i < drawn->collective_count; i++) {
        dl_collective_cost *cost = &drawn->collectives[i];
        if (starts_of(cost) > 0) cost->factor = factor_of_start(cost, normals, squares);
    }
    free(normals);
}

/* Moves all times of a section by the same number of standard errors, as they come from one fit. */
static void draw_times(dl_random *stream, dl_costs *drawn)
{
    for (size_t i = 0; i < drawn->collective_count; i++) {
        dl_collective_cost *cost = &drawn->collectives[i];
        const double z = dl_random_normal(stream);
        for (size_t k = 0; k < cost->count; k++)
            move_value(&cost->times[k].time_ns, 0, DL_COLLECTIVE_TIME_MAX_NS, z);
    }
}

static bool collectives_have_errors(const dl_costs *costs)
{
    bool any = false;
    for (size_t i = 0; i < costs->collective_count; i++) {
        const dl_collective_cost *cost = &costs->collectives[i];
        any |= starts_of(cost) > 0;
        for (size_t k = 0; k < cost->count; k++)
            any |= cost->times[k].time_ns.error > 0;
    }
    return any;
}

static void draw_costs(const dl_costs *costs, cost_draw *draw, dl_costs *drawn);

static void draw_models(const dl_costs *costs, cost_draw *draw, dl_costs *drawn)
{
    drawn->models = dl_calloc((size_t)costs->model_count, sizeof *drawn->models, "costs of models");
    for (int m = 0; m < costs->model_count; m++) {
        drawn->models[m] = costs->models[m];
        if (costs->models[m].own == NULL) continue;
        drawn->models[m].own = dl_calloc(1, sizeof *drawn->models[m].own, "costs of a model");
        draw_costs(costs->models[m].own, draw, drawn->models[m].own);
    }
}

static void draw_costs(const dl_costs *costs, cost_draw *draw, dl_costs *drawn)
{
    dl_random *stream = draw->stream;
    *drawn = *costs;
    drawn->ops = dl_calloc(costs->op_count, sizeof *drawn->ops, "drawn operations");
    if (costs->op_count > 0) memcpy(drawn->ops, costs->ops, costs->op_count * sizeof *drawn->ops);
    drawn->machine_values = dl_calloc(costs->machine_value_count, sizeof *drawn->machine_values,
                                      "drawn numbers of the machine");
    if (costs->machine_value_count > 0) {
        memcpy(drawn->machine_values, costs->machine_values,
               costs->machine_value_count * sizeof *drawn->machine_values);
    }
    drawn->collectives = NULL;
    drawn->collective_count = 0;
    for (size_t i = 0; i < costs->collective_count; i++) {
        dl_collective_cost cost = costs->collectives[i];
        cost.times = dl_calloc(cost.count, sizeof *cost.times, "times by size");
        memcpy(cost.times, costs->collectives[i].times, cost.count * sizeof *cost.times);
        DL_APPEND(drawn->collectives, drawn->collective_count, "collectives of a run") = cost;
    }
    if (stream != NULL) {
        dl_costs_each(drawn, draw_value, draw);
        draw_bytes(stream, &drawn->parameter_bytes, costs->parameter_error_bytes);
        draw_bytes(stream, &drawn->state_bytes, costs->state_error_bytes);
    }
    /* Drawn last, so that an additional model or collective does not change the draws of other
     * values. */
    if (costs->model_count > 0) draw_models(costs, draw, drawn);
    if (stream == NULL) return;
    draw_times(stream, drawn);
    draw_starts(stream, drawn);
}

void dl_costs_draw(const dl_costs *costs, dl_random *stream, dl_costs *drawn)
{
    cost_draw draw = {.stream = stream};
    draw_costs(costs, &draw, drawn);
    free(draw.causes);
}

/* Adds an exchange that takes `times` x (latency + bytes / rate), if latency and rate are known. */
static void add_line(dl_costs *drawn, int kind, int ranks, double times, const dl_value *latency_ns,
                     const dl_value *bytes_per_s)
{
    const double bytes = 1e6;
    if (!latency_ns->known || !bytes_per_s->known) return;
    const double ns[2] = {times * latency_ns->value,
                          times * (latency_ns->value + bytes / bytes_per_s->value * 1e9)};
    dl_collective_cost line = {.kind = kind, .ranks = ranks, .count = 2};
    line.times = dl_calloc(line.count, sizeof *line.times, "times by size");
    for (size_t i = 0; i < line.count; i++) {
        line.times[i] = (dl_collective_time){
            .bytes = i > 0 ? bytes : 0,
            .time_ns = {.known = true, .value = ns[i], .origin = latency_ns->origin}};
    }
    DL_APPEND(drawn->collectives, drawn->collective_count, "collectives of a run") = line;
}

void dl_costs_draw_processes(dl_costs *drawn, int workers)
{
    const double messages = 2 * (workers - 1);
    const dl_value *const latency_ns = &drawn->gloo.latency_ns, *const bytes_per_s =
                                                                    &drawn->gloo.bytes_per_s;
    if (workers > 1) {
        add_line(drawn, DL_ALLREDUCE, workers, messages, latency_ns, bytes_per_s);
        if (drawn->gloo.beside_frac.known) {
            add_line(drawn, DL_ALLREDUCE_BESIDE, workers, messages * drawn->gloo.beside_frac.value,
                     latency_ns, bytes_per_s);
        }
        add_line(drawn, DL_BROADCAST, workers, ceil(log2(workers)), latency_ns, bytes_per_s);
    }
    add_line(drawn, DL_ROUNDTRIP, workers, workers, &drawn->rpc.latency_ns,
             &drawn->rpc.bytes_per_s);
}

const dl_collective_cost *dl_costs_other_ranks(const dl_costs *costs, int kind, int workers)
{
    const dl_collective_cost *nearest = NULL;
    double least = INFINITY;
    for (size_t i = 0; i < costs->collective_count; i++) {
        const dl_collective_cost *c = &costs->collectives[i];
        if (c->kind != kind || c->nodes > 1) continue;
        const double away = fabs(log((double)c->ranks / workers));
        if (away == 0) return NULL;
        if (away < least) nearest = c;
        least = fmin(least, away);
    }
    return nearest;
}

/* Number of sequential messages of an exchange of that kind. */
static double messages_of(int kind, int ranks)
{
    if (kind == DL_ROUNDTRIP) return ranks;
    return kind == DL_BROADCAST ? ceil(log2(ranks)) : 2 * (ranks - 1);
}

void dl_costs_draw_other_ranks(dl_costs *drawn, int workers)
{
    static const int kinds[] = {DL_ALLREDUCE,      DL_ALLREDUCE_PAIR, DL_ALLREDUCE_BESIDE,
                                DL_ALLREDUCE_LATE, DL_BROADCAST,      DL_ROUNDTRIP};
    /* Pair, beside and late times are scaled only together with the all-reduce: if that was
     * measured with this number of processes, so were they. */
    const bool scaled = dl_costs_other_ranks(drawn, DL_ALLREDUCE, workers) != NULL;
    for (size_t k = 0; k < DL_LENGTH(kinds); k++) {
        const dl_collective_cost *from = dl_costs_other_ranks(drawn, kinds[k], workers);
        const bool goes_with_it = kinds[k] == DL_ALLREDUCE_PAIR ||
                                  kinds[k] == DL_ALLREDUCE_BESIDE || kinds[k] == DL_ALLREDUCE_LATE;
        if (goes_with_it && !scaled) continue;
        if (from == NULL || !drawn->gloo.ranks_factor.known) continue;
        if (workers == 1 && kinds[k] != DL_ROUNDTRIP) continue;
        const double factor = drawn->gloo.ranks_factor.value * messages_of(kinds[k], workers) /
                              messages_of(kinds[k], from->ranks);
        dl_collective_cost cost = *from;
        cost.ranks = workers;
        cost.times = dl_calloc(cost.count, sizeof *cost.times, "times by size");
        for (size_t i = 0; i < cost.count; i++) {
            cost.times[i] = from->times[i];
            cost.times[i].time_ns.value *= factor;
            cost.times[i].time_ns.origin = DL_ORIGIN_ASSUMED;
        }
        DL_APPEND(drawn->collectives, drawn->collective_count, "collectives of a run") = cost;
    }
}

static void note_error(void *user, dl_value *value, double low DL_UNUSED, double high DL_UNUSED)
{
    bool *any = user;
    *any |= value->known && (value->error > 0 || value->low < value->high);
}

bool dl_costs_have_errors(const dl_costs *costs)
{
    bool any = costs->parameter_error_bytes > 0 || costs->state_error_bytes > 0 ||
               collectives_have_errors(costs);
    dl_costs looked_at = *costs;
    dl_costs_each(&looked_at, note_error, &any);
    for (int m = 0; m < costs->model_count; m++)
        any |= costs->models[m].own != NULL && dl_costs_have_errors(costs->models[m].own);
    return any;
}

void dl_costs_draw_free(dl_costs *drawn)
{
    for (int m = 0; m < drawn->model_count; m++) {
        DL_AUTOFREE dl_costs *own = drawn->models[m].own;
        if (own == NULL) continue;
        dl_costs_draw_free(own);
    }
    if (drawn->model_count > 0) free(drawn->models);
    free(drawn->ops);
    free(drawn->machine_values);
    for (size_t i = 0; i < drawn->collective_count; i++)
        free(drawn->collectives[i].times);
    free(drawn->collectives);
    *drawn = (dl_costs){0};
}
