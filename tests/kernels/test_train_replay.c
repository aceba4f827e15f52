/* Replays of schedules: equal to real training where its result is determined, equal to a plain
 * reference where gradients are stale, and the same on any number of cores. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/near.h"
#include "tests/train_case.h"

#include "common/cpu.h"
#include "kernels/train/train_internal.h"

/* A schedule as text, written row by row. */
typedef struct text {
    char *bytes;
    size_t count;
    FILE *out;
    double time_s;
} text;

/* The stream keeps pointers into *t. */
static void begin(text *t, int workers)
{
    *t = (text){0};
    t->out = open_memstream(&t->bytes, &t->count);
    fprintf(t->out,
            "# dlscale schedule\n# schema: 1\n# mode: test\n# workers: %d\n# batch: 12\n"
            "time_s,event,update,worker,read,batch\n",
            workers);
}

static void gradient(text *t, int update, int worker, int read, int batch)
{
    t->time_s += 0.5;
    fprintf(t->out, "%.1f,gradient,%d,%d,%d,%d\n", t->time_s, update, worker, read, batch);
}

static dl_schedule end(text *t)
{
    dl_schedule schedule = {0};
    dl_error err = {0};
    fclose(t->out);
    if (dl_schedule_read_text(&schedule, "test.csv", t->bytes, t->count, &err) != DL_OK) {
        fail_msg("line %d: %s", err.line, err.text);
    }
    free(t->bytes);
    return schedule;
}

/* `steps` synchronous steps of all workers. */
static dl_schedule synchronous(int workers, int steps)
{
    text t;
    begin(&t, workers);
    for (int s = 0; s < steps; s++) {
        for (int w = 0; w < workers; w++)
            gradient(&t, s + 1, w, s, s * workers + w);
    }
    return end(&t);
}

/* Workers in turn: the first gradients are 0, 1, ... updates stale, all others workers - 1; `each`
 * gradients make an update. */
static dl_schedule stale(int workers, int steps, int each)
{
    text t;
    begin(&t, workers);
    int read[8] = {0}, count = 0;
    for (int s = 0; s < steps; s++) {
        for (int w = 0; w < workers; w++, count++) {
            gradient(&t, count / each + 1, w, read[w], s * workers + w);
            read[w] = (count + 1) / each;
        }
    }
    return end(&t);
}

static dl_train_result replay(const dl_train_config *config, const dl_schedule *schedule)
{
    dl_train_result result = {0};
    dl_error err = {0};
    if (dl_train_replay(config, schedule, &data, &result, &err) != DL_OK) {
        fail_msg("%s", err.text);
    }
    return result;
}

/* With one worker, in any mode: plain training, bit for bit. */
static void one_worker_is_plain_training(void **state DL_UNUSED)
{
    DL_SCOPED(dl_schedule) schedule = synchronous(1, 20);
    for (int optimizer = 0; dl_optimizer_names[optimizer] != NULL; optimizer++) {
        for (int precision = DL_FLOAT; precision <= DL_DOUBLE; precision++) {
            dl_train_config config = small_config();
            config.precision = (dl_precision)precision;
            config.drop_epochs = 3;
            config.optimizer = (dl_optimizer_config){dl_optimizer_names[optimizer], 0.01,
                                                     optimizer == 0 ? 0.9 : 0};
            DL_SCOPED(dl_train_result) plain = run(&config, NULL);
            DL_SCOPED(dl_train_result) again = replay(&config, &schedule);
            assert_true(same_bits(&plain, &again));
            assert_true(plain.first_loss == again.first_loss);
            assert_true(plain.last_loss == again.last_loss);
            assert_int_equal(again.updates, 20);
            assert_int_equal(again.samples, 240);
        }
    }
}

/* Synchronous workers: the result of allreduce with as many threads, and of one worker with the
 * whole batch. */
static void synchronous_is_large_batch_training(void **state DL_UNUSED)
{
    for (int workers = 2; workers <= 4; workers++) {
        DL_SCOPED(dl_schedule) schedule = synchronous(workers, 20);
        dl_train_config config = small_config();
        config.optimizer.momentum = 0.9;
        DL_SCOPED(dl_train_result) again = replay(&config, &schedule);
        DL_SCOPED(dl_train_result) whole = run(&config, NULL);
        config.sync = DL_SYNC_ALLREDUCE;
        config.workers = workers;
        DL_SCOPED(dl_train_result) threads = run(&config, NULL);
        assert_true(near_all(again.parameters, whole.parameters, whole.parameter_count, 1e-10));
        assert_true(near_all(again.parameters, threads.parameters, threads.parameter_count, 1e-14));
    }
}

/* Local steps and averages: the bits of the real mode, with kept and with averaged momentum, with
 * and without an outer optimizer. */
static void averages_are_the_real_modes(void **state DL_UNUSED)
{
    enum { WORKERS = 3, INTERVAL = 4, STEPS = 20 };
    text t;
    begin(&t, WORKERS);
    for (int s = 0; s < STEPS; s++) {
        for (int w = WORKERS - 1; w >= 0; w--)
            fprintf(t.out, "%d,local,,%d,,%d\n", s, w, s * WORKERS + w);
        if ((s + 1) % INTERVAL == 0) fprintf(t.out, "%d,average,%d,,,\n", s, (s + 1) / INTERVAL);
    }
    DL_SCOPED(dl_schedule) schedule = end(&t);
    assert_int_equal(schedule.updates, STEPS / INTERVAL);
    for (int i = 0; i < 6; i++) {
        dl_train_config config = small_config();
        config.optimizer.momentum = 0.9;
        config.average_state = i & 1;
        config.outer = (dl_outer_config){(dl_outer)(i / 2), 0.7, 0.9};
        DL_SCOPED(dl_train_result) again = replay(&config, &schedule);
        config.sync = DL_SYNC_AVERAGE;
        config.workers = WORKERS;
        config.interval = INTERVAL;
        DL_SCOPED(dl_train_result) threads = run(&config, NULL);
        assert_true(near_all(again.parameters, threads.parameters, threads.parameter_count, 1e-14));
    }
}

enum { LATE_WORKERS = 3, LATE_INTERVAL = 6, LATE_FRAGMENTS = 3, LATE_STEPS = 12 };
enum { LATE_PERIOD = LATE_INTERVAL / LATE_FRAGMENTS };

/* Fragments that are sent every second step and received `lag` steps later, or all at the end, by
 * groups of `size` workers. Where no group waits, the last one is a step behind the others. */
static dl_schedule late_schedule_of(int lag, int workers, int size)
{
    const int groups = workers / size;
    char sites[32] = "";
    text t;
    if (size > 1) snprintf(sites, sizeof sites, "# sites: %d\n", groups);
    t.out = open_memstream(&t.bytes, &t.count);
    fprintf(t.out,
            "# dlscale schedule\n# schema: 1\n# workers: %d\n# batch: 12\n%s# fragments: %d\n"
            "time_s,event,update,worker,read,batch,fragment\n",
            workers, sites, LATE_FRAGMENTS);
    int averages = 0;
    for (int now = 1; now <= LATE_STEPS + 1; now++) {
        for (int g = 0; g < groups; g++) {
            const int done = g == groups - 1 && lag > 1 ? now - 1 : now;
            if (done < 1 || done > LATE_STEPS) continue;
            for (int w = (g + 1) * size - 1; w >= g * size; w--)
                fprintf(t.out, "%d,local,,%d,,%d,\n", now, w, (done - 1) * workers + w);
            const int round = done / LATE_PERIOD - 1;
            for (int w = g * size; done % LATE_PERIOD == 0 && lag > 0 && w < (g + 1) * size; w++)
                fprintf(t.out, "%d,send,,%d,,,%d\n", now, w, round % LATE_FRAGMENTS);
            if (done % LATE_PERIOD == 0 && g == groups - 1) {
                averages++;
                fprintf(t.out, "%d,average,%d,,,,%d\n", now, averages, round % LATE_FRAGMENTS);
            }
            for (int k = 0; lag > 0 && done < LATE_STEPS && k < LATE_STEPS; k++) {
                if ((k + 1) * LATE_PERIOD + lag != done) continue;
                for (int w = g * size; w < (g + 1) * size; w++)
                    fprintf(t.out, "%d,receive,,%d,,,%d\n", now, w, k % LATE_FRAGMENTS);
            }
        }
    }
    for (int w = 0; lag > 0 && w < workers; w++) {
        for (int k = 0; k < LATE_STEPS / LATE_PERIOD; k++) {
            if ((k + 1) * LATE_PERIOD + lag < LATE_STEPS) continue;
            fprintf(t.out, "99,receive,,%d,,,%d\n", w, k % LATE_FRAGMENTS);
        }
    }
    return end(&t);
}

static dl_schedule late_schedule(int lag)
{
    return late_schedule_of(lag, LATE_WORKERS, 1);
}

/* Configuration to replay a schedule with lags. */
static dl_train_config late_config(int lag, dl_quantise kind)
{
    dl_train_config config = small_config();
    config.steps = LATE_STEPS;
    config.quantise = kind;
    config.topk_frac = 0.1;
    config.outer = (dl_outer_config){(dl_outer)(lag % 3), 0.7, 0.9};
    config.optimizer = (dl_optimizer_config){.name = "adam", .learning_rate = 1e-3};
    config.average_state = lag == 0 && kind == DL_QUANTISE_NONE;
    return config;
}

/* Sets the configuration for real training that corresponds to it. */
static void average_late(dl_train_config *config, int workers, int lag)
{
    config->sync = DL_SYNC_AVERAGE;
    config->workers = workers;
    config->interval = LATE_INTERVAL;
    config->fragments = LATE_FRAGMENTS;
    config->lag = lag;
}

/* Uncompressed parameters are tested with each lag, each kind of message with two lags. */
static bool is_tried(int lag, int kind)
{
    return kind == DL_QUANTISE_NONE || (lag + kind) % 3 == 0;
}

/* In any order of the workers: the bits of real training except for the mean of the last
 * parameters, on one core and on all. */
static void late_averages_are_the_real_modes(void **state DL_UNUSED)
{
    for (int lag = 0; lag < LATE_INTERVAL; lag++) {
        DL_SCOPED(dl_schedule) schedule = late_schedule(lag);
        assert_int_equal(schedule.updates, LATE_STEPS / LATE_PERIOD);
        assert_int_equal(schedule.fragments, LATE_FRAGMENTS);
        assert_int_equal(schedule.has_sends, lag > 0);
        for (int kind = DL_QUANTISE_NONE; kind < DL_QUANTISE_COUNT; kind++) {
            if (!is_tried(lag, kind)) continue;
            dl_train_config config = late_config(lag, (dl_quantise)kind);
            config.cores = 1;
            DL_SCOPED(dl_train_result) one = replay(&config, &schedule);
            config.cores = 0;
            DL_SCOPED(dl_train_result) all = replay(&config, &schedule);
            assert_true(same_bits(&one, &all));
            average_late(&config, LATE_WORKERS, lag);
            DL_SCOPED(dl_train_result) threads = run(&config, NULL);
            assert_true(
                near_all(one.parameters, threads.parameters, threads.parameter_count, 1e-14));
        }
    }
}

/* The same with four workers in two sites. */
static void sites_are_the_real_mode(void **state DL_UNUSED)
{
    for (int lag = 0; lag < LATE_INTERVAL; lag++) {
        DL_SCOPED(dl_schedule) schedule = late_schedule_of(lag, 4, 2);
        assert_int_equal(schedule.sites, 2);
        for (int kind = DL_QUANTISE_NONE; kind < DL_QUANTISE_COUNT; kind++) {
            if (!is_tried(lag, kind)) continue;
            dl_train_config config = late_config(lag, (dl_quantise)kind);
            DL_SCOPED(dl_train_result) again = replay(&config, &schedule);
            average_late(&config, 4, lag);
            config.sites = 2;
            DL_SCOPED(dl_train_result) threads = run(&config, NULL);
            assert_true(
                near_all(again.parameters, threads.parameters, threads.parameter_count, 1e-14));
            if (kind == DL_QUANTISE_NONE) {
                config.sites = 0;
                DL_SCOPED(dl_train_result) others = run(&config, NULL);
                assert_false(
                    near_all(again.parameters, others.parameters, threads.parameter_count, 1e-6));
            }
        }
    }
}

/* Workers 0 and 1, the latter half as fast, with 2 and 1 local steps between averages: the bits of
 * the real mode except for the mean of the last parameters. */
static void intervals_by_speed_are_the_real_mode(void **state DL_UNUSED)
{
    enum { ROUNDS = 8 };
    static const double slow[] = {1, 2};
    text t;
    begin(&t, 2);
    for (int r = 0; r < ROUNDS; r++) {
        fprintf(t.out, "%d,local,,0,,%d\n%d,local,,1,,%d\n", r, 4 * r, r, 2 * r + 1);
        fprintf(t.out, "%d,local,,0,,%d\n%d,average,%d,,,\n", r, 4 * r + 2, r, r + 1);
    }
    DL_SCOPED(dl_schedule) schedule = end(&t);
    dl_train_config config = small_config();
    config.optimizer.momentum = 0.9;
    config.outer = (dl_outer_config){DL_OUTER_NESTEROV, 0.7, 0.9};
    DL_SCOPED(dl_train_result) again = replay(&config, &schedule);
    config.sync = DL_SYNC_AVERAGE;
    config.workers = 2;
    config.interval = 2;
    config.steps = 2 * ROUNDS;
    config.slow = slow;
    config.interval_by_speed = true;
    DL_SCOPED(dl_train_result) threads = run(&config, NULL);
    assert_true(near_all(again.parameters, threads.parameters, threads.parameter_count, 1e-14));
    assert_int_equal(again.samples, threads.samples);
    config.interval_by_speed = false;
    DL_SCOPED(dl_train_result) all = run(&config, NULL);
    assert_false(near_all(again.parameters, all.parameters, threads.parameter_count, 1e-6));
}

/* Computes the gradient of a batch with these parameters in a separate model. */
static void reference_gradient(dl_model *model, const double *parameters, int64_t batch, int share,
                               uint64_t seed)
{
    uint32_t order[SAMPLES], samples[12];
    for (int i = 0; i < share; i++) {
        const int64_t at = batch * share + i;
        dl_train_shuffle(seed, at / SAMPLES, order, SAMPLES);
        samples[i] = order[at % SAMPLES];
    }
    memcpy(dl_model_parameters(model), parameters, dl_model_parameter_bytes(model));
    dl_data_set_batch(&data, samples, share, DL_DOUBLE, dl_model_input(model),
                      dl_model_labels(model));
    const int operations = dl_model_operation_count(model);
    for (int op = 0; op < operations; op++)
        dl_model_forward(model, op, share);
    for (int op = operations - 1; op >= 0; op--)
        dl_model_backward(model, op, share);
}

/* Reference that keeps every version and applies gradients one after another by definition: p <- p
 * - rate x mean of the gradients, each times 1 / staleness with staleness_rate. */
static double *reference(const dl_train_config *config, const dl_schedule *schedule)
{
    const int share = schedule->batch / schedule->workers;
    dl_model *model = NULL;
    assert_int_equal(dl_model_create(&model, config->model, DL_DOUBLE, share, config->seed, NULL),
                     DL_OK);
    const size_t count = dl_model_parameter_count(model);
    double **versions = dl_calloc((size_t)schedule->updates + 1, sizeof *versions, "versions");
    for (int64_t v = 0; v <= schedule->updates; v++)
        versions[v] = dl_calloc(count, sizeof(double), "version");
    memcpy(versions[0], dl_model_parameters(model), count * sizeof(double));
    for (size_t i = 0; i < schedule->count;) {
        const int64_t update = schedule->events[i].update;
        size_t together = 0;
        while (i + together < schedule->count && schedule->events[i + together].update == update)
            together++;
        memcpy(versions[update], versions[update - 1], count * sizeof(double));
        for (size_t g = 0; g < together; g++, i++) {
            const dl_schedule_event *event = &schedule->events[i];
            const double staleness = (double)(update - 1 - event->read);
            double rate = config->optimizer.learning_rate / (double)together;
            if (config->staleness_rate && staleness > 1) rate /= staleness;
            reference_gradient(model, versions[event->read], event->batch, share, config->seed);
            const double *gradients = dl_model_gradients(model);
            for (size_t p = 0; p < count; p++)
                versions[update][p] -= rate * gradients[p];
        }
    }
    double *last = versions[schedule->updates];
    for (int64_t v = 0; v < schedule->updates; v++)
        free(versions[v]);
    free(versions);
    dl_model_destroy(model);
    return last;
}

/* Streaming DiLoCo number by number, with plain SGD and Nesterov momentum: fragments have 2279 x 16
 * of the 109,386 numbers (6,837 lines of 16), the last one 6 fewer. */
static void late_averages_are_those_of_a_plain_reference(void **state DL_UNUSED)
{
    enum { LAG = 3, VECTORS = 3 * LATE_WORKERS + 2 };
    DL_SCOPED(dl_schedule) schedule = late_schedule(LAG);
    dl_train_config config = small_config();
    config.outer = (dl_outer_config){DL_OUTER_NESTEROV, 0.7, 0.9};
    config.mixing = 0.25;
    const int share = schedule.batch / LATE_WORKERS;
    dl_model *model = NULL;
    assert_int_equal(dl_model_create(&model, config.model, DL_DOUBLE, share, config.seed, NULL),
                     DL_OK);
    const size_t count = dl_model_parameter_count(model), part = 2279 * 16;
    assert_int_equal(count, 109386);
    double *v[VECTORS];
    for (int i = 0; i < VECTORS; i++) {
        v[i] = dl_calloc(count, sizeof(double), "vector");
        if (i > 0) memcpy(v[i], dl_model_parameters(model), count * sizeof(double));
    }
    double *velocity = v[0], *outer = v[1], **now = v + 2, **sent = v + 2 + LATE_WORKERS;
    for (int done = 1; done <= LATE_STEPS; done++) {
        for (int w = 0; w < LATE_WORKERS; w++) {
            reference_gradient(model, now[w], (done - 1) * LATE_WORKERS + w, share, config.seed);
            const double *gradients = dl_model_gradients(model);
            for (size_t p = 0; p < count; p++)
                now[w][p] -= config.optimizer.learning_rate * gradients[p];
        }
        for (int k = 0; k < LATE_STEPS / LATE_PERIOD; k++) {
            const int sends = (k + 1) * LATE_PERIOD;
            const int merges = sends + LAG < LATE_STEPS ? sends + LAG : LATE_STEPS;
            const size_t first = (size_t)(k % LATE_FRAGMENTS) * part;
            for (size_t p = first; p < first + part && p < count; p++) {
                double mean = 0;
                for (int w = 0; w < LATE_WORKERS; w++) {
                    if (sends == done) sent[w][p] = now[w][p];
                    mean += sent[w][p] / LATE_WORKERS;
                }
                if (sends == done) {
                    const double d = outer[p] - mean;
                    velocity[p] = 0.9 * velocity[p] + d;
                    outer[p] -= 0.7 * (d + 0.9 * velocity[p]);
                }
                for (int w = 0; merges == done && w < LATE_WORKERS; w++)
                    now[w][p] = 0.25 * now[w][p] + 0.75 * outer[p];
            }
        }
    }
    for (size_t p = 0; p < count; p++)
        now[0][p] = (now[0][p] + now[1][p] + now[2][p]) / LATE_WORKERS;
    DL_SCOPED(dl_train_result) result = replay(&config, &schedule);
    assert_true(near_all(result.parameters, now[0], count, 1e-12));
    for (int i = 0; i < VECTORS; i++)
        free(v[i]);
    dl_model_destroy(model);
}

/* Three learners: uploads merged together with weights, a superseded upload, an upload of a version
 * that is not kept any more, versions that replace parameters, and versions to which they are
 * rebased, one while the next is being merged. */
static const char merged_rows[] = "0,local,,0,,0,\n"
                                  "0,local,,1,,1,\n"
                                  "1,local,,0,,3,\n"
                                  "1,upload,,0,0,,\n"
                                  "1,upload,,1,0,,\n"
                                  "2,merge,1,0,0,,1\n"
                                  "2,merge,1,1,0,,0.75\n"
                                  "2,local,,2,,2,\n"
                                  "2,replace,,1,0,,\n"
                                  "3,local,,1,,4,\n"
                                  "3,local,,0,,6,\n"
                                  "3,rebase,,0,1,,\n"
                                  "4,upload,,2,0,,\n"
                                  "4,upload,,0,1,,\n"
                                  "4,local,,2,,5,\n"
                                  "5,merge,2,0,1,,1\n"
                                  "5,merge,3,2,0,,0.25\n"
                                  "5,replace,,2,2,,\n"
                                  "6,local,,2,,8,\n"
                                  "6,upload,,1,0,,\n"
                                  "6,local,,1,,7,\n"
                                  "7,upload,,1,0,,\n"
                                  "7,upload,,2,2,,\n"
                                  "8,merge,4,1,0,,0.5\n"
                                  "8,merge,4,2,2,,0.5\n";

static dl_schedule merged_schedule(void)
{
    text t;
    t.out = open_memstream(&t.bytes, &t.count);
    fprintf(t.out,
            "# dlscale schedule\n# schema: 1\n# workers: 3\n# batch: 12\n"
            "time_s,event,update,worker,read,batch,weight\n%s",
            merged_rows);
    return end(&t);
}

/* Reference that keeps all versions, number by number as described in kernels/train/train_replay.c,
 * with plain SGD. */
static double *merged_reference(const dl_train_config *config, const dl_schedule *schedule)
{
    enum { WORKERS = 3, VERSIONS = 5, VECTORS = 3 * WORKERS + VERSIONS + 2 };
    dl_model *model = NULL;
    const int share = schedule->batch / WORKERS;
    assert_int_equal(dl_model_create(&model, config->model, DL_DOUBLE, share, config->seed, NULL),
                     DL_OK);
    const size_t count = dl_model_parameter_count(model);
    double *v[VECTORS];
    for (int i = 0; i < VECTORS; i++) {
        v[i] = dl_calloc(count, sizeof(double), "vector");
        if (i < VECTORS - 1) memcpy(v[i], dl_model_parameters(model), count * sizeof(double));
    }
    double **now = v, **start = v + WORKERS, **up = v + 2 * WORKERS, **version = v + 3 * WORKERS;
    double *outer = v[VECTORS - 2], *velocity = v[VECTORS - 1];
    for (size_t i = 0; i < schedule->count; i++) {
        const dl_schedule_event *e = &schedule->events[i], *next = e + 1;
        const int w = e->worker;
        if (e->kind == DL_SCHEDULE_LOCAL) {
            reference_gradient(model, now[w], e->batch, share, config->seed);
        }
        const double *gradients = dl_model_gradients(model);
        const bool first = e->kind == DL_SCHEDULE_MERGE && (i == 0 || e[-1].update != e->update);
        const bool last =
            e->kind == DL_SCHEDULE_MERGE && (i + 1 == schedule->count || next->update != e->update);
        for (size_t p = 0; p < count; p++) {
            switch (e->kind) {
            case DL_SCHEDULE_LOCAL:
                now[w][p] -= config->optimizer.learning_rate * gradients[p];
                break;
            case DL_SCHEDULE_UPLOAD:
                up[w][p] = now[w][p] - start[w][p];
                start[w][p] = now[w][p];
                break;
            case DL_SCHEDULE_MERGE: {
                double *to = version[e->update];
                to[p] = (first ? 0 : to[p]) + e->weight * up[w][p];
                if (!last) break;
                to[p] = to[p] * (first ? 1 : 0.5) + version[e->update - 1][p];
                if (config->outer.kind == DL_OUTER_NONE) break;
                const double d = outer[p] - to[p];
                velocity[p] = config->outer.momentum * velocity[p] + d;
                outer[p] =
                    to[p] - (config->outer.rate * (d + config->outer.momentum * velocity[p]) - d);
                to[p] = outer[p];
                break;
            }
            case DL_SCHEDULE_REBASE:
                now[w][p] = now[w][p] - start[w][p] + version[e->read][p];
                start[w][p] = version[e->read][p];
                break;
            default: now[w][p] = start[w][p] = version[e->read][p]; break;
            }
        }
    }
    double *result = version[VERSIONS - 1];
    for (int i = 0; i < VECTORS; i++)
        if (v[i] != result) free(v[i]);
    dl_model_destroy(model);
    return result;
}

static void merges_are_those_of_a_plain_reference(void **state DL_UNUSED)
{
    DL_SCOPED(dl_schedule) schedule = merged_schedule();
    assert_int_equal(schedule.updates, 4);
    assert_int_equal(schedule.gradients, 9);
    assert_int_equal(schedule.staleness_max, 3);
    assert_true(schedule.staleness_mean == (0 + 0 + 0 + 2 + 3 + 1) / 6.0);
    for (int outer = 0; outer <= 1; outer++) {
        dl_train_config config = small_config();
        if (outer == 1) config.outer = (dl_outer_config){DL_OUTER_NESTEROV, 0.7, 0.9};
        DL_AUTOFREE double *expected = merged_reference(&config, &schedule);
        for (int cores = 1; cores <= 2; cores++) {
            config.cores = cores <= dl_cpu_count() ? cores : 1;
            config.evaluate_every = 1;
            DL_SCOPED(dl_train_result) result = replay(&config, &schedule);
            assert_memory_equal(result.parameters, expected,
                                result.parameter_count * sizeof(double));
            assert_int_equal(result.updates, 4);
            assert_int_equal(result.samples, 9 * 4);
            /* Due after every 3 local steps: 3 before version 1 is merged, 7 before 2 and 3, 9
             * before 4. */
            assert_int_equal(result.points[0].update, 1);
            assert_int_equal(result.points[1].update, 2);
        }
        config.average_state = true;
        dl_train_result none = {0};
        dl_error err = {0};
        assert_int_equal(dl_train_replay(&config, &schedule, &data, &none, &err), DL_ERR_DATA);
    }
}

static void stale_gradients_are_of_their_version(void **state DL_UNUSED)
{
    for (int each = 1; each <= 2; each++) {
        DL_SCOPED(dl_schedule) schedule = stale(6, 8, each);
        assert_int_equal(schedule.staleness_max, each == 1 ? 5 : 3);
        dl_train_config config = small_config();
        dl_train_result fresh = {0};
        for (int rate = 0; rate <= 1; rate++) {
            config.staleness_rate = rate;
            dl_train_result result = replay(&config, &schedule);
            DL_AUTOFREE double *expected = reference(&config, &schedule);
            assert_true(near_all(result.parameters, expected, result.parameter_count, 1e-12));
            /* staleness_rate changes the result. */
            if (rate == 1) {
                assert_false(
                    near_all(result.parameters, fresh.parameters, result.parameter_count, 1e-6));
                dl_train_result_free(&fresh);
                dl_train_result_free(&result);
            } else {
                fresh = result;
            }
        }
    }
}

/* The number of threads does not change the bits, with a staleness that lets them work
 * concurrently. */
static void cores_change_nothing(void **state DL_UNUSED)
{
    if (dl_cpu_count() < 2) skip();
    for (int each = 1; each <= 4; each += 3) {
        DL_SCOPED(dl_schedule) schedule = stale(4, 30, each);
        dl_train_config config = small_config();
        config.cores = 1;
        config.evaluate_every = 10;
        DL_SCOPED(dl_train_result) one = replay(&config, &schedule);
        config.cores = dl_cpu_count();
        DL_SCOPED(dl_train_result) all = replay(&config, &schedule);
        assert_true(same_bits(&one, &all));
        assert_int_equal(one.point_count, all.point_count);
        for (int i = 0; i < one.point_count; i++) {
            assert_true(one.points[i].loss == all.points[i].loss);
            assert_memory_equal(one.points[i].parameters, all.points[i].parameters,
                                one.parameter_count * sizeof(double));
        }
    }
}

/* Every 5 steps of 2 workers: after gradient 10, update 5; at the simulated time of the row. */
static void points_have_simulated_times(void **state DL_UNUSED)
{
    DL_SCOPED(dl_schedule) schedule = synchronous(2, 20), shorter = synchronous(2, 5);
    dl_train_config config = small_config();
    config.evaluate_every = 5;
    DL_SCOPED(dl_train_result) result = replay(&config, &schedule);
    DL_SCOPED(dl_train_result) first = replay(&config, &shorter);
    assert_int_equal(result.point_count, 4);
    assert_int_equal(result.points[0].update, 5);
    assert_int_equal(result.points[0].samples, 60);
    assert_true(result.points[0].simulated_s == 5.0);
    assert_true(result.points[3].simulated_s == 20.0);
    assert_memory_equal(result.points[0].parameters, first.parameters,
                        result.parameter_count * sizeof(double));
}

static void a_stop_ends_it(void **state DL_UNUSED)
{
    const atomic_bool stop = true;
    DL_SCOPED(dl_schedule) schedule = stale(4, 30, 1);
    dl_train_config config = small_config();
    config.stop = &stop;
    DL_SCOPED(dl_train_result) result = replay(&config, &schedule);
    assert_int_equal(result.updates, 0);
}

static void bad_settings_are_errors(void **state DL_UNUSED)
{
    DL_SCOPED(dl_schedule) schedule = synchronous(2, 2);
    dl_train_result result = {.parameter_count = 99};
    dl_error err = {0};
    dl_train_config config = small_config();
    config.model = "lenot";
    assert_int_equal(dl_train_replay(&config, &schedule, &data, &result, &err), DL_ERR_NAME);
    config = small_config();
    config.optimizer.name = "sdg";
    assert_int_equal(dl_train_replay(&config, &schedule, &data, &result, &err), DL_ERR_NAME);
    config = small_config();
    config.staleness_rate = true;
    config.optimizer.name = "adam";
    assert_int_equal(dl_train_replay(&config, &schedule, &data, &result, &err), DL_ERR_UNSUPPORTED);
    config = small_config();
    config.outer.kind = DL_OUTER_SGD;
    assert_int_equal(dl_train_replay(&config, &schedule, &data, &result, &err), DL_ERR_DATA);
    assert_contains(err.text, "needs averages");
    config = small_config();
    config.cores = dl_cpu_count() + 1;
    assert_int_equal(dl_train_replay(&config, &schedule, &data, &result, &err), DL_ERR_RANGE);
    config = small_config();
    config.model = "vgg19_bn";
    assert_int_equal(dl_train_replay(&config, &schedule, &data, &result, &err), DL_ERR_DATA);
    assert_int_equal(result.parameter_count, 99);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_worker_is_plain_training),
        cmocka_unit_test(synchronous_is_large_batch_training),
        cmocka_unit_test(averages_are_the_real_modes),
        cmocka_unit_test(late_averages_are_the_real_modes),
        cmocka_unit_test(sites_are_the_real_mode),
        cmocka_unit_test(intervals_by_speed_are_the_real_mode),
        cmocka_unit_test(late_averages_are_those_of_a_plain_reference),
        cmocka_unit_test(merges_are_those_of_a_plain_reference),
        cmocka_unit_test(stale_gradients_are_of_their_version),
        cmocka_unit_test(cores_change_nothing),
        cmocka_unit_test(points_have_simulated_times),
        cmocka_unit_test(a_stop_ends_it),
        cmocka_unit_test(bad_settings_are_errors),
    };
    return cmocka_run_group_tests(tests, make_data, free_data);
}
