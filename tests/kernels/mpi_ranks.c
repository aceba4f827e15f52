/* A program for mpirun: the exchange of ranks through MPI, and the errors of the others when a rank
 * is lost. Usage: mpi_ranks CASE [RANK]; each rank prints its findings, or its error. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/options.h"
#include "common/units.h"
#include "kernels/exchange.h"
#include "kernels/ranks/rank_group.h"
#include "tests/train_case.h"

#define LIMIT_S 120.0 /* limit in cases where no rank should wait long */
#define SHORT_S 3.0   /* limit in cases where a rank waits until the limit */

enum { VECTORS_MAX = 3 };

/* Numbers whose sum depends on the order in which they are added. */
static double number(int vector, size_t i)
{
    return (vector + 1) * 1e-3 + (double)(i % 977) * 0.37 + (vector % 3) * 1e4;
}

static void *vector_of(int vector, size_t count, dl_precision precision)
{
    void *made = dl_alloc_aligned((count + 1) * sizeof(double), "vector");
    for (size_t i = 0; i < count; i++) {
        if (precision == DL_FLOAT) {
            ((float *)made)[i] = (float)number(vector, i);
        } else {
            ((double *)made)[i] = number(vector, i);
        }
    }
    return made;
}

/* The sum over ranks of n vectors each has the bits of one average of all vectors in one
 * process. */
static dl_status check_sum(dl_rank_group *group, int n, size_t count, dl_precision precision,
                           dl_error *err)
{
    const int all = group->size * n;
    const size_t bytes = count * dl_precision_bytes(precision);
    const void **vectors = dl_calloc((size_t)all, sizeof *vectors, "vectors");
    DL_AUTOFREE void *expected = dl_alloc_aligned(bytes + 1, "expected");
    DL_AUTOFREE void *actual = dl_alloc_aligned(bytes + 1, "actual");
    for (int v = 0; v < all; v++)
        vectors[v] = vector_of(v, count, precision);
    dl_exchange_average(expected, vectors, all, 0, count, precision);
    dl_status status =
        group->sum(group, actual, vectors + group->rank * n, n, all, count, precision, err);
    if (status == DL_OK && memcmp(actual, expected, bytes) != 0) {
        status = dl_error_set(err, DL_ERR_DATA, "other bits: %d vectors of %zu numbers", n, count);
    }
    for (int v = 0; v < all; v++)
        free((void *)(uintptr_t)vectors[v]);
    free(vectors);
    return status;
}

/* Cases: no numbers, fewer numbers than ranks, incomplete blocks, more than one block of a sum
 * (2^20 numbers). Several long vectors in one precision only. */
static dl_status sums(dl_rank_group *group, dl_error *err)
{
    static const size_t counts[] = {0, 1, 3, 100003, (1 << 20) - 1, (1 << 20), (5 << 19) + 7};
    dl_status status = DL_OK;
    for (int n = 1; n <= VECTORS_MAX; n += 2) {
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            if (status == DL_OK) status = check_sum(group, n, counts[c], DL_FLOAT, err);
            if (n > 1 && counts[c] > 1 << 20) continue;
            if (status == DL_OK) status = check_sum(group, n, counts[c], DL_DOUBLE, err);
        }
    }
    if (status == DL_OK) printf("sums of %d ranks are equal\n", group->size);
    return status;
}

/* Ranks on this host, agreement, broadcast, gathering. */
static dl_status talk(dl_rank_group *group, dl_error *err)
{
    const int rank = group->rank, size = group->size;
    bool nobody = true, somebody = false;
    int number_0 = rank == 0 ? 77 : -1, own[2] = {rank, rank * rank}, all[16][2] = {{0}};
    bool good = group->local_rank == rank && group->local_size == size;
    good &= group->agree(group, false, &nobody, err) == DL_OK && !nobody;
    good &=
        group->agree(group, rank == size - 2, &somebody, err) == DL_OK && somebody == (size > 1);
    good &= group->broadcast(group, &number_0, sizeof number_0, err) == DL_OK && number_0 == 77;
    good &= group->gather(group, own, rank == 0 ? all : NULL, sizeof own, err) == DL_OK;
    for (int r = 0; rank == 0 && r < size; r++)
        good &= all[r][0] == r && all[r][1] == r * r;
    good &= !group->lost(group);
    if (!good) return dl_error_set(err, DL_ERR_DATA, "wrong result");
    printf("%d ranks have talked\n", size);
    return DL_OK;
}

/* 11 steps with an average every third: the run ends between two averages. Rank 0 compares. */
static dl_status check_run(dl_rank_group *group, dl_train_config *config, dl_error *err)
{
    dl_train_result expected = {0}, actual = {0};
    config->wait = DL_WAIT_BLOCK; /* more threads than cores */
    dl_status status = group->rank == 0 ? dl_train_run(config, &data, NULL, &expected, err) : DL_OK;
    config->ranks = group;
    if (status == DL_OK) status = dl_train_run(config, &data, NULL, &actual, err);
    config->ranks = NULL;
    if (status != DL_OK) return status;
    const bool same = group->rank > 0 ||
                      (same_bits(&expected, &actual) && expected.first_loss == actual.first_loss &&
                       expected.last_loss == actual.last_loss &&
                       expected.updates == actual.updates && expected.samples == actual.samples);
    dl_train_result_free(&expected);
    dl_train_result_free(&actual);
    if (same) return DL_OK;
    return dl_error_set(err, DL_ERR_DATA, "%d workers have other results", config->workers);
}

static dl_status train(dl_rank_group *group, dl_error *err)
{
    dl_status status = DL_OK;
    make_data(NULL);
    for (int threads = 1; threads <= 3; threads += 2) {
        for (int precision = DL_FLOAT; precision <= DL_DOUBLE; precision++) {
            dl_train_config config = small_config();
            config.precision = (dl_precision)precision;
            config.steps = 11;
            config.optimizer.momentum = 0.5;
            config.workers = group->size * threads;
            config.batch = config.workers * 2;
            config.sync = DL_SYNC_ALLREDUCE;
            if (status == DL_OK) status = check_run(group, &config, err);
            config.sync = DL_SYNC_AVERAGE;
            config.interval = 3;
            if (status == DL_OK) status = check_run(group, &config, err);
            config.average_state = true;
            config.outer = (dl_outer_config){DL_OUTER_NESTEROV, 0.7, 0.9};
            if (status == DL_OK) status = check_run(group, &config, err);
            config.average_state = false;
            config.fragments = 3;
            config.lag = precision == DL_FLOAT ? 2 : 0;
            config.quantise = threads == 1 ? DL_QUANTISE_INT8 : DL_QUANTISE_FP16;
            if (status == DL_OK) status = check_run(group, &config, err);
        }
    }
    free_data(NULL);
    if (status == DL_OK) printf("runs of %d ranks are equal\n", group->size);
    return status;
}

/* The other ranks wait for one that fails, is killed, or stops. */
static dl_status lose(dl_rank_group *group, const char *what, int chosen, dl_error *err)
{
    static float vector[1000], result[1000];
    const void *vectors[] = {vector};
    bool any = false;
    dl_status status = group->agree(group, false, &any, err);
    if (status != DL_OK) return status;
    if (group->rank == chosen) {
        if (strcmp(what, "killed") == 0) raise(SIGKILL);
        if (strcmp(what, "stopped") == 0) raise(SIGSTOP);
        return dl_error_set(err, DL_ERR_DATA, "it has had enough");
    }
    status = strcmp(what, "in_sum") == 0
                 ? group->sum(group, result, vectors, 1, 1, 1000, DL_FLOAT, err)
                 : group->agree(group, false, &any, err);
    dl_error again = {0};
    const bool kept = group->agree(group, false, &any, &again) == status &&
                      strcmp(again.text, err->text) == 0 && group->lost(group);
    return kept ? status : dl_error_set(err, DL_ERR_DATA, "the reason is not kept");
}

/* Detects a lost rank outside the calls, like a thread that waits for its device. */
static dl_status watch(dl_rank_group *group, int chosen, dl_error *err)
{
    bool any = false;
    if (group->rank == chosen) {
        (void)dl_error_set(err, DL_ERR_DATA, "it has had enough");
        group->abandon(group, err);
        return DL_ERR_DATA;
    }
    while (!group->lost(group))
        usleep(1000);
    return group->agree(group, false, &any, err);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    const int chosen = argc > 2 ? atoi(argv[2]) : -1;
    const dl_launcher launcher = dl_launcher_find();
    dl_rank_group *group = NULL;
    dl_error err = {0};
    signal(SIGTERM, SIG_IGN); /* dlprof also catches it while it trains */
    const bool differs = strcmp(what, "differ") == 0 && launcher.rank == chosen;
    dl_status status = dl_rank_group_join(
        &group, &launcher, differs ? "train steps=30 seed=1" : "train steps=20 seed=1",
        strcmp(what, "stopped") == 0 ? SHORT_S : LIMIT_S, &err);
    if (status == DL_OK) {
        status = strcmp(what, "sums") == 0    ? sums(group, &err)
                 : strcmp(what, "talk") == 0  ? talk(group, &err)
                 : strcmp(what, "train") == 0 ? train(group, &err)
                 : strcmp(what, "watch") == 0 ? watch(group, chosen, &err)
                                              : lose(group, what, chosen, &err);
    }
    const int rank = launcher.rank;
    if (status != DL_OK) fprintf(stderr, "%d: %s\n", rank, err.text);
    if (group != NULL) group->leave(group, status == DL_OK ? NULL : &err);
    return dl_status_exit_code(status);
}
