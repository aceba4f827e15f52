/* Closed forms that the simulated modes must give: each check is a row of one table, which
 * tests/oracles/oracles.c prints.
 *
 *   name  expected  simulated  error  tolerance  ok
 *
 * Unless stated otherwise, workers compute 1 ms per step on average, each on its own core, and
 * nothing else takes time (FIXTURE_COMPUTE_ONLY). Tolerances of random figures are ORACLE_ERRORS
 * standard errors; the seeds are fixed, so a row that passes once passes always. */
#ifndef DL_TESTS_ORACLES_H
#define DL_TESTS_ORACLES_H

#include "tests/sim_fixture.h"

#define ORACLE_ERRORS 4

/* simulated must lie within tolerance >= 0 of expected. */
void oracle_near(double expected, double simulated, double tolerance, const char *name, ...)
    DL_PRINTF(4, 5);

/* simulated must be at most limit. */
void oracle_at_most(double limit, double simulated, const char *name, ...) DL_PRINTF(3, 4);

/* Groups of checks. */
void oracles_staleness(void);
void oracles_softsync(void);
void oracles_ssp(void);
void oracles_time(void);
void oracles_amounts(void);
void oracles_gpus(void);
void oracles_monotone(void);
void oracles_pipeline(void);
void oracles_local_sgd(void);
void oracles_input(void);

typedef struct oracle_staleness {
    double count, mean, sd, max;
} oracle_staleness;

/* Returns the staleness of the gradients of `worker`, or of all for -1. */
oracle_staleness oracle_staleness_of(const dl_run_result *result, int worker);

/* Returns the fraction of all gradients with a staleness of at least `from`. */
double oracle_staleness_from(const dl_run_result *result, int from);

/* Runs FIXTURE_COMPUTE_ONLY with n workers, `sync` lines, and lines of [noise]. */
dl_run_result oracle_run(const char *mode, int workers, int steps, const char *sync,
                         const char *noise);

/* Returns 1 + 1/2^power + ... + 1/n^power. */
double oracle_harmonic(int n, double power);

#endif
