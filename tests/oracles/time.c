/* Times per update of n workers with exponential computing times of mean 1 ms: order statistics.
 * The k-th of n has mean H_n - H_(n-k) and variance the same sum of 1 / i^2. */
#include "tests/oracles/oracles.h"

enum { N = 8 };

/* sd_ms: standard deviation of the time of one update. */
static void check_update(const char *mode, int k, const char *noise, double expected_ms,
                         double sd_ms)
{
    char sync[40];
    snprintf(sync, sizeof sync, k > 0 ? "k = %d\n" : "", k);
    DL_SCOPED(dl_run_result) r = oracle_run(mode, N, 20000, sync, noise);
    oracle_near(expected_ms, 1e3 / r.updates_per_s, ORACLE_ERRORS * sd_ms / sqrt((double)r.updates),
                "%s n=%d k=%d, %.*s: ms an update", mode, N, k, (int)strcspn(noise + 7, "\n"),
                noise + 7);
}

/* All wait for the slowest. */
static void check_barrier(void)
{
    for (int n = 2; n <= 32; n *= 2) {
        enum { STEPS = 20000 };
        DL_SCOPED(dl_run_result) r = oracle_run("allreduce", n, STEPS, "", "kind = exponential\n");
        oracle_near(oracle_harmonic(n, 1), 1e3 * r.step_mean_s,
                    ORACLE_ERRORS * sqrt(oracle_harmonic(n, 2) / STEPS),
                    "allreduce n=%d, exponential: step in ms, H_n", n);
    }
}

/* Local steps without exchange add up before workers wait: with interval h the loss is that of sums
 * of h steps. If exchanges cost nothing, an interval of equal workers costs nothing. */
static void check_interval(void)
{
    dl_run_result r = oracle_run("average", N, 20000, "interval = 10\n", "kind = none\n");
    oracle_near(1, 1e3 * r.step_mean_s, 1e-9, "average interval=10, equal: step in ms");
    dl_run_result_free(&r);
}

/* Dutta et al. 2018: waiting for k workers, or for any k mini-batches. Asynchronous updates with k
 * exponential workers take as long as synchronous ones (memoryless); k mini-batches of workers that
 * are never idle come at the workers' rates, for any distribution. */
void oracles_time(void)
{
    static const char exponential[] = "kind = exponential\n";
    check_barrier();
    check_interval();
    check_update("async", 0, exponential, 1.0 / N, 1.0 / N);
    for (int k = 1; k <= N; k += k < 2 ? 1 : 3) {
        double mean = oracle_harmonic(N, 1) - oracle_harmonic(N - k, 1);
        double sd = sqrt(oracle_harmonic(N, 2) - oracle_harmonic(N - k, 2));
        check_update("ksync", k, exponential, mean, sd);
        check_update("kasync", k, exponential, mean, sd);
    }
    for (int k = 1; k <= 27; k *= 3) {
        double mean = (double)k / N;
        check_update("kbatchsync", k, exponential, mean, sqrt(k) / N);
        check_update("kbatchasync", k, exponential, mean, sqrt(k) / N);
        check_update("kbatchasync", k, "kind = lognormal\nsigma = 0.5\n", mean, 0.5 * sqrt(k) / N);
    }
}
