/* Stale synchronous parallel: no worker begins a step more than `bound` clocks ahead of the slowest
 * worker, and no gradient is staler than (2 bound + 1) (n - 1) (derived in
 * sim/sync/server_modes.c). Both limits are reached. */
#include "tests/oracles/oracles.h"

void oracles_ssp(void)
{
    enum { N = 5 };
    static const char *const noises[] = {"kind = exponential\n",
                                         "kind = gamma\nsigma = 0.5\nslow = 4:6\n"};
    for (size_t i = 0; i < sizeof noises / sizeof *noises; i++) {
        for (int bound = 0; bound <= 4; bound += bound > 1 ? 2 : 1) {
            char sync[40];
            snprintf(sync, sizeof sync, "bound = %d\n", bound);
            dl_run_result r = oracle_run("ssp", N, 20000, sync, noises[i]);
            const char *what = i == 0 ? "exponential" : "a slow one";
            oracle_at_most(bound, r.clock_lag_max, "ssp bound=%d, %s: largest clock lag", bound,
                           what);
            oracle_at_most((2 * bound + 1) * (N - 1), oracle_staleness_of(&r, -1).max,
                           "ssp bound=%d, %s: largest staleness", bound, what);
            dl_run_result_free(&r);
        }
    }
    dl_run_result r = oracle_run("ssp", N, 20000, "bound = 2\n", "kind = exponential\n");
    oracle_near(2, r.clock_lag_max, 0, "ssp bound=2, exponential: the clock lag is reached");
    oracle_near(5 * (N - 1), oracle_staleness_of(&r, -1).max, 0,
                "ssp bound=2, exponential: the staleness is reached");
    dl_run_result_free(&r);
    /* With bound 0 all workers begin a step together. */
    r = oracle_run("ssp", N, 20000, "bound = 0\n", "kind = exponential\n");
    oracle_near(oracle_harmonic(N, 1), 1e3 * r.step_mean_s,
                ORACLE_ERRORS * sqrt(oracle_harmonic(N, 2) / 20000),
                "ssp bound=0, exponential: step in ms, H_5");
    dl_run_result_free(&r);
}
