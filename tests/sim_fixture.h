/* Scenarios and costs from text, for the tests of the simulator. */
#ifndef DL_TESTS_SIM_FIXTURE_H
#define DL_TESTS_SIM_FIXTURE_H

#include "tests/refused.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "sim/run.h"
#include "sim/scenario/study.h"

/* A machine and a workload with round numbers:
 *   compute 1 000 000 ns, update 100 000 ns, 8 000 bytes of parameters
 *   copy 1 ns a byte; average 0.5 ns a byte read, 1 ns written; server's update 1 ns and 1 ns */
#define FIXTURE_COSTS                                                              \
    "[costs]\nschema = 1\nparameter_bytes = 8000\nstate_bytes = 4000\n"            \
    "[op a.forward]\nfixed_ns = 400000\nper_sample_ns = 0\n"                       \
    "[op a.backward]\nfixed_ns = 600000\nper_sample_ns = 0\n"                      \
    "[op a.update]\nfixed_ns = 100000\nper_sample_ns = 0\n"                        \
    "[copy]\nlatency_ns = 0\nbandwidth_bytes_per_s = 1e9\n"                        \
    "[average]\nlatency_ns = 0\nread_bytes_per_s = 2e9\nwrite_bytes_per_s = 1e9\n" \
    "[update]\nlatency_ns = 0\nread_bytes_per_s = 1e9\nwrite_bytes_per_s = 1e9\n"  \
    "[memory]\ntotal_bytes_per_s = 1e12\n"                                         \
    "[sync]\nbarrier_ns = 100\nlock_ns = 50\nwakeup_ns = 1000\nslice_ns = 1e9\n"   \
    "[sharing]\ncopies_2 = 1\n"

/* The same with nothing but 1 000 000 ns of computing: all exchange is free. */
#define FIXTURE_COMPUTE_ONLY                                                       \
    "[costs]\nschema = 1\nparameter_bytes = 0\n"                                   \
    "[op a.forward]\nfixed_ns = 1000000\nper_sample_ns = 0\n"                      \
    "[copy]\nlatency_ns = 0\nbandwidth_bytes_per_s = 1e9\n"                        \
    "[average]\nlatency_ns = 0\nread_bytes_per_s = 1e9\nwrite_bytes_per_s = 1e9\n" \
    "[update]\nlatency_ns = 0\nread_bytes_per_s = 1e9\nwrite_bytes_per_s = 1e9\n"  \
    "[memory]\ntotal_bytes_per_s = 1e12\n"                                         \
    "[sync]\nbarrier_ns = 0\nlock_ns = 0\nwakeup_ns = 0\nslice_ns = 1e5\n"         \
    "[sharing]\ncopies_2 = 1\n"

static inline dl_costs fixture_costs(const char *text)
{
    dl_costs costs = {0};
    dl_error err = {0};
    if (dl_costs_read_text(&costs, "costs.ini", text, strlen(text), &err) != DL_OK) {
        fail_msg("line %d: %s", err.line, err.text);
    }
    return costs;
}

/* For assert_all_refused. */
static inline dl_status fixture_refused_costs(const char *text, dl_error *err)
{
    dl_costs costs = {0};
    const dl_status status = dl_costs_read_text(&costs, "costs.ini", text, strlen(text), err);
    if (status != DL_OK) assert_null(costs.path);
    return status;
}

/* A scenario whose sections but [workload] costs are given as printf text. */
static inline dl_scenario fixture_scenario(const char *format, ...) DL_PRINTF(1, 2);
static inline dl_scenario fixture_scenario(const char *format, ...)
{
    char text[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    dl_scenario scenario = {0};
    dl_error err = {0};
    if (dl_scenario_read_text(&scenario, "s.ini", text, strlen(text), &err) != DL_OK) {
        fail_msg("line %d: %s", err.line, err.text);
    }
    return scenario;
}

/* A study of one scenario; both are borrowed by *variant, and that by the study: nothing to
 * free. */
static inline dl_study fixture_study(dl_variant *variant, const dl_scenario *scenario,
                                     const dl_costs *costs)
{
    *variant = (dl_variant){.scenario = *scenario, .costs = *costs};
    return (dl_study){
        .variants = variant, .variant_count = 1, .point_count = scenario->point_count};
}

/* Runs the scenario's first point, replicate 0. */
static inline dl_run_result fixture_run(const dl_costs *costs, const dl_scenario *scenario)
{
    dl_run_result result = {0};
    dl_error err = {0};
    const dl_run_config config = {
        .scenario = scenario, .costs = costs, .point = &scenario->points[0]};
    if (dl_run(&config, &result, &err) != DL_OK) fail_msg("%s", err.text);
    return result;
}

/* Runs one point of `mode` with `sync` more lines of [sync] and `rest` more sections; frees all but
 * the result. */
static inline dl_run_result fixture_run_mode(const char *costs_text, const char *mode, int cores,
                                             int workers, int steps, const char *sync,
                                             const char *rest)
{
    DL_SCOPED(dl_costs) costs = fixture_costs(costs_text);
    dl_scenario scenario =
        fixture_scenario("[scenario]\nsteps = %d\n[machine]\ncores = %d\nworkers = %d\n"
                         "[workload]\ncosts = c.ini\nbatch_per_worker = 1\n[sync]\nmode = %s\n%s%s",
                         steps, cores, workers, mode, sync, rest);
    dl_run_result result = fixture_run(&costs, &scenario);
    dl_scenario_free(&scenario);
    return result;
}

/* |actual - expected| <= relative tolerance; shows both if not. */
static inline void assert_near(double actual, double expected, double tolerance)
{
    if (!(fabs(actual - expected) <= tolerance * fabs(expected) + 1e-15)) {
        fail_msg("%.12g is not within %g of %.12g", actual, tolerance, expected);
    }
}

#endif
