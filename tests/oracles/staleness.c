/* Staleness of the modes without waiting, and of those that wait for their own update.
 *
 * Conservation. Assume that each of n workers always computes a gradient and that c gradients make
 * an update. An update makes the gradients of all workers staler by one, except that of the worker
 * whose gradient was the last one, since that worker reads after its own update (others define that
 * it reads before, and get n / c). So each update adds n - 1 to the staleness of the gradients, and
 * c of them are applied: the mean over applied gradients is (n - 1) / c for any times, equal or
 * not. Where each worker waits for the update that contains its gradient, c workers compute none
 * when it comes, and the mean is (n - c) / c; except if two updates come at the same time, before
 * the workers of the first one have read, as those of equal workers do.
 *
 * Only the end of a run deviates, when no worker begins a gradient any more and the last c - 1 may
 * be in no update: with N gradients the mean differs by less than (n (n + c) + c max) / N. */
#include "tests/oracles/oracles.h"

static const char *const noises[] = {"kind = none\n", "kind = exponential\n",
                                     "kind = gamma\nsigma = 0.3\n", "kind = lognormal\nsigma = 2\n",
                                     "kind = gamma\nsigma = 0.2\nslow = 0:1.3, 1:4\n"};
static const char *const names[] = {"equal", "exponential", "gamma 0.3", "lognormal 2",
                                    "gamma 0.2, two slow ones"};

static void check_mean(const char *mode, const char *sync, int workers, int gradients,
                       double expected)
{
    const bool waits = strcmp(mode, "kasync") == 0;
    for (size_t i = waits; i < sizeof noises / sizeof *noises; i++) {
        DL_SCOPED(dl_run_result) r = oracle_run(mode, workers, 4000, sync, noises[i]);
        oracle_staleness s = oracle_staleness_of(&r, -1);
        oracle_near(expected, s.mean,
                    (workers * (workers + gradients) + gradients * s.max) / s.count,
                    "%s c=%d n=%d, %s: mean staleness", mode, gradients, workers, names[i]);
    }
}

/* Workers of rates 1, 1/2, 1/4: worker i sees the sum of the others' rates over its own. */
static void check_each_worker(void)
{
    static const double rate[] = {1, 0.5, 0.25};
    dl_run_result r = oracle_run("async", 3, 40000, "", "kind = exponential\nslow = 1:2, 2:4\n");
    for (int w = 0; w < 3; w++) {
        oracle_staleness s = oracle_staleness_of(&r, w);
        double expected = 1.75 / rate[w] - 1;
        oracle_near(expected, s.mean, ORACLE_ERRORS * s.sd / sqrt(s.count),
                    "async rates 1, 1/2, 1/4: mean staleness of worker %d", w);
    }
    dl_run_result_free(&r);
}

/* Equal workers without noise take turns: n - 1, except for the first n gradients. */
static void check_turns(void)
{
    for (int n = 2; n <= 32; n *= 4) {
        DL_SCOPED(dl_run_result) r = oracle_run("async", n, 100, "", "kind = none\n");
        double others = 1 - oracle_staleness_from(&r, n - 1);
        oracle_near((n - 1) / (100.0 * n), others, 1e-12,
                    "async n=%d, equal: fraction not exactly n - 1 (the first ones)", n);
        oracle_near(n - 1, oracle_staleness_of(&r, -1).max, 0, "async n=%d, equal: largest", n);
    }
}

/* While a worker computes an exponential time, the others' updates are a Poisson stream of n - 1
 * times its rate: their number is geometric, P(k) = 1/n (1 - 1/n)^k. */
static void check_geometric(void)
{
    for (int n = 2; n <= 32; n *= 4) {
        DL_SCOPED(dl_run_result) r = oracle_run("async", n, 200000 / n, "", "kind = exponential\n");
        double q = 1 - 1.0 / n, count = oracle_staleness_of(&r, -1).count;
        for (int i = 0; i < 4; i++) {
            const int from = i == 0 ? 1 : i == 1 ? n / 2 + 1 : i == 2 ? n : 2 * n + 1;
            double p = pow(q, from);
            oracle_near(p, oracle_staleness_from(&r, from),
                        ORACLE_ERRORS * sqrt(p * (1 - p) / count) + n * n / count,
                        "async n=%d, exponential: P(staleness >= %d)", n, from);
        }
    }
}

void oracles_staleness(void)
{
    check_mean("async", "", 2, 1, 1);
    check_mean("async", "", 16, 1, 15);
    check_mean("softsync", "n = 3\n", 12, 4, 11.0 / 4);
    check_mean("kbatchasync", "k = 20\n", 6, 20, 5.0 / 20);
    check_mean("kasync", "k = 3\n", 8, 3, 5.0 / 3);
    check_mean("kasync", "k = 8\n", 8, 8, 0);
    check_each_worker();
    check_turns();
    check_geometric();
}
