/* Batches made by loaders on the cores of the workers. A step computes for 1 ms; a batch takes d ms
 * to make, and r ms to read where storage limits it; l loaders for each of n workers, on c cores.
 * Time per step in ms:
 *
 *   enough cores     max(1, (r + d) / l, n r)       training, loaders, storage
 *   too few cores    n (1 + d) / c                  no core is idle while there is work */
#include "tests/oracles/oracles.h"

enum { STEPS = 400 };

/* Returns the simulated time per step in ms. */
static double step_ms(int cores, int workers, int loaders, double make_ms, double read_ms)
{
    char costs[1024], rest[128];
    snprintf(costs, sizeof costs,
             FIXTURE_COMPUTE_ONLY "[op input]\nfixed_ns = %g\nper_sample_ns = 0\n[input]\n"
                                  "stored_bytes_per_sample = %g\n",
             1e6 * make_ms, 1e6 * read_ms);
    snprintf(rest, sizeof rest, "[input]\nloaders = %d\nstorage_bytes_per_s = 1GB/s\n", loaders);
    DL_SCOPED(dl_run_result) r = fixture_run_mode(costs, "none", cores, workers, STEPS, "", rest);
    return 1e3 * r.step_mean_s;
}

static void check(double expected, int cores, int workers, int loaders, double make, double read)
{
    /* Covers batches made before the first step, and one step during which other workers end. */
    const double tolerance = expected * (2.0 * loaders + 2) / STEPS;
    oracle_near(expected, step_ms(cores, workers, loaders, make, read), tolerance,
                "input, c=%d n=%d l=%d, make %g ms, read %g ms: step in ms", cores, workers,
                loaders, make, read);
}

void oracles_input(void)
{
    static const double makes[] = {0.25, 1.5, 4}, reads[] = {0, 0.5, 2};
    for (int loaders = 1; loaders <= 4; loaders *= 2) {
        for (int m = 0; m < 3; m++) {
            const double d = makes[m];
            for (int k = 0; k < 3; k++) {
                const double r = reads[k];
                check(fmax(fmax(1, (r + d) / loaders), r), 5, 1, loaders, d, r);
            }
            check(1 + d, 1, 1, loaders, d, 0);
            check(1 + d, 2, 2, loaders, d, 0);
        }
    }
}
