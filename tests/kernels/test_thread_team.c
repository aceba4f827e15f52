/* Loops that the threads of a team divide: every number occurs once, with the bits of one
 * thread. */
#include <stdlib.h>

#include "common/random.h"
#include "kernels/blas.h"
#include "kernels/model_table.h"
#include "kernels/optimizer.h"
#include "kernels/pinned_threads.h"
#include "kernels/thread_team.h"
#include "tests/check.h"

/* Work of a team's leader. */
typedef struct team_run {
    dl_thread_team *team;
    void (*lead)(void *user);
    void *user;
} team_run;

static void run_member(void *user, int index)
{
    const team_run *run = user;
    if (index > 0) {
        dl_thread_team_serve(run->team);
        return;
    }
    dl_thread_team_lead(run->team);
    run->lead(run->user);
    dl_thread_team_dismiss(run->team);
}

static void run_team(int threads, dl_wait wait, void (*lead)(void *user), void *user)
{
    team_run run = {dl_thread_team_make(threads, wait), lead, user};
    assert_int_equal(dl_pinned_threads_run(threads, NULL, run_member, &run, NULL), DL_OK);
    dl_thread_team_free(run.team);
}

/* A loop that counts the occurrences of each number, and the parts that start at a wrong
 * position. */
enum { NUMBERS = 1000, LOOPS = 2000 };

typedef struct counts {
    size_t count, grain;
    int seen[NUMBERS];
    _Atomic int parts, misplaced;
    int most_parts;
} counts;

static void count_part(const void *loop, size_t first, size_t last)
{
    counts *c = (counts *)loop;
    c->parts++;
    if (first % c->grain != 0 || first >= last || last > c->count) c->misplaced++;
    for (size_t i = first; i < last && i < NUMBERS; i++)
        c->seen[i]++;
}

/* Runs loops of all lengths, one directly after another. */
static void lead_counts(void *user)
{
    counts *c = user;
    for (int l = 0; l < LOOPS; l++) {
        c->count = (size_t)(l * 7) % (NUMBERS + 1);
        c->grain = 1 + (size_t)l % 30;
        memset(c->seen, 0, sizeof c->seen);
        c->parts = 0;
        dl_divide(count_part, c, c->count, c->grain);
        for (size_t i = 0; i < NUMBERS; i++) {
            if (c->seen[i] != (i < c->count)) fail_msg("%zu of %zu: %d", i, c->count, c->seen[i]);
        }
        if (c->parts > c->most_parts) c->most_parts = c->parts;
    }
}

static void check_counts(int threads, dl_wait wait)
{
    counts c = {.misplaced = 0};
    run_team(threads, wait, lead_counts, &c);
    assert_int_equal(c.misplaced, 0);
    /* At least 4 parts per thread, if the loop has as many grains; a single thread does not divide
     * it. */
    assert_int_equal(c.most_parts, threads > 1 ? 4 * threads : 1);
}

static void every_number_is_in_one_part(void **state DL_UNUSED)
{
    check_counts(1, DL_WAIT_SPIN);
    check_counts(2, DL_WAIT_SPIN);
    check_counts(2, DL_WAIT_BLOCK);
    check_counts(5, DL_WAIT_BLOCK); /* possibly more threads than cores */
}

/* Runs a pass over a model, whose gradients are compared. */
static void lead_pass(void *user)
{
    dl_model_pass(user, 1);
}

static dl_model *make_model(const char *name, int side, dl_precision precision)
{
    const dl_model_table *found = NULL;
    assert_int_equal(dl_model_table_find(&found, name, NULL), DL_OK);
    dl_model_table table = *found;
    if (side > 0) table.in = (dl_shape){side, side, 3};
    dl_model *model = dl_model_create_from(&table, precision, 1, 1);
    const size_t count = dl_model_input_count(model);
    dl_random random;
    dl_random_init(&random, 2, 0, 0, 0);
    for (size_t i = 0; i < count; i++) {
        const double value = dl_random_uniform(&random);
        if (precision == DL_DOUBLE) {
            ((double *)dl_model_input(model))[i] = value;
        } else {
            ((float *)dl_model_input(model))[i] = (float)value;
        }
    }
    dl_model_labels(model)[0] = 3;
    return model;
}

static void check_model(const char *name, int side, dl_precision precision, int threads)
{
    dl_model *model = make_model(name, side, precision);
    const size_t bytes = dl_model_parameter_bytes(model);
    DL_AUTOFREE void *expected = dl_alloc_aligned(bytes, "gradients");
    dl_model_pass(model, 1);
    memcpy(expected, dl_model_gradients(model), bytes);
    memset(dl_model_gradients(model), 0, bytes);
    run_team(threads, DL_WAIT_BLOCK, lead_pass, model);
    if (memcmp(dl_model_gradients(model), expected, bytes) != 0) {
        fail_msg("%s with %d threads differs", name, threads);
    }
    dl_model_destroy(model);
}

/* With 32 pixels, vgg19_bn has layers for Winograd, for few pixels and for OpenBLAS; resnet50 with
 * 64 adds strides, pooling beyond the edge and means, and products of several parts. Both
 * precisions divide loops by the same source, so each runs one of these: two threads in one, three
 * in the other. */
static void passes_have_the_bits_of_one_thread(void **state DL_UNUSED)
{
    assert_int_equal(dl_blas_reserve(3, NULL), DL_OK);
    check_model("lenet", 0, DL_FLOAT, 2);
    check_model("lenet", 0, DL_DOUBLE, 3);
    check_model("vgg19_bn", 32, DL_FLOAT, 2);
    check_model("resnet50", 64, DL_DOUBLE, 3);
}

/* The number of parameters of three updates, large enough for each to be divided into several
 * parts. */
enum { PARAMETERS = 50001 };

typedef struct updates {
    const dl_optimizer_config config;
    double parameters[PARAMETERS], gradients[PARAMETERS];
} updates;

static void lead_updates(void *user)
{
    updates *u = user;
    dl_optimizer *optimizer;
    assert_int_equal(dl_optimizer_create(&optimizer, &u->config, DL_DOUBLE, PARAMETERS, NULL),
                     DL_OK);
    for (int i = 0; i < PARAMETERS; i++) {
        u->parameters[i] = 1 + i % 7;
        u->gradients[i] = 0.1 * (i % 11 - 5);
    }
    for (int step = 0; step < 3; step++) {
        dl_optimizer_begin(optimizer);
        dl_optimizer_apply(optimizer, u->parameters, u->gradients, 0, PARAMETERS);
    }
    dl_optimizer_destroy(optimizer);
}

static void updates_have_the_bits_of_one_thread(void **state DL_UNUSED)
{
    static const dl_optimizer_config configs[] = {
        {"sgd", 0.1, 0}, {"sgd", 0.1, 0.9}, {"rmsprop", 0.01, 0}, {"adam", 0.01, 0}};
    for (size_t c = 0; c < sizeof configs / sizeof *configs; c++) {
        updates alone = {.config = configs[c]}, divided = {.config = configs[c]};
        lead_updates(&alone);
        run_team(3, DL_WAIT_BLOCK, lead_updates, &divided);
        assert_true(alone.parameters[1] != 2); /* the parameters did change */
        assert_memory_equal(alone.parameters, divided.parameters, sizeof alone.parameters);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_is_in_one_part),
        cmocka_unit_test(passes_have_the_bits_of_one_thread),
        cmocka_unit_test(updates_have_the_bits_of_one_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
