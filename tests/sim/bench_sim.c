/* Events a second of the simulator on one core, for each mode with 16 workers on cores of their own
 * and on 4 shared ones. Median of 5 runs after one to warm up. Not a test: prints, asserts nothing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/units.h"
#include "sim/run.h"
#include "sim/statistics.h"

#define RUNS 5

static const char costs_text[] =
    "[costs]\nschema = 1\nparameter_bytes = 1724320\n"
    "[op a.forward]\nfixed_ns = 100000\nper_sample_ns = 210000\n"
    "[op a.update]\nfixed_ns = 300000\nper_sample_ns = 0\n"
    "[copy]\nlatency_ns = 200\nbandwidth_bytes_per_s = 8e9\n"
    "[average]\nlatency_ns = 500\nread_bytes_per_s = 1.2e10\nwrite_bytes_per_s = 1.2e10\n"
    "[update]\nlatency_ns = 500\nread_bytes_per_s = 1.2e10\nwrite_bytes_per_s = 4e9\n"
    "[memory]\ntotal_bytes_per_s = 2e10\n"
    "[sync]\nbarrier_ns = 300\nwakeup_ns = 30000\nlock_ns = 200\nslice_ns = 3e6\n"
    "[sharing]\ncopies_2 = 1.07\n";
static const char scenario_text[] =
    "[scenario]\nsteps = 5000\n[machine]\ncores = 16, 4\nworkers = 16\n[workload]\ncosts = c\n"
    "batch = 128\n[sync]\nmode = none, allreduce, ps, average, async\ninterval = 1\n"
    "[noise]\nkind = gamma\nsigma = 0.1\n";

static double seconds_of_run(const dl_run_config *config, int64_t *events)
{
    DL_SCOPED(dl_run_result) result = {0};
    dl_error err = {0};
    int64_t start_ns = dl_clock_ns();
    if (dl_run(config, &result, &err) != DL_OK) {
        dl_error_print(&err, "bench_sim", stderr);
        exit(1);
    }
    double seconds = dl_ns_to_s((double)(dl_clock_ns() - start_ns));
    *events = result.events;
    return seconds;
}

int main(void)
{
    dl_costs costs = {0};
    dl_scenario scenario = {0};
    dl_error err = {0};
    if (dl_costs_read_text(&costs, "costs", costs_text, sizeof costs_text - 1, &err) != DL_OK ||
        dl_scenario_read_text(&scenario, "scenario", scenario_text, sizeof scenario_text - 1,
                              &err) != DL_OK) {
        dl_error_print(&err, "bench_sim", stderr);
        return 1;
    }
    for (size_t p = 0; p < scenario.point_count; p++) {
        const dl_run_config config = {
            .scenario = &scenario, .costs = &costs, .point = &scenario.points[p]};
        double seconds[RUNS];
        int64_t events = 0;
        char text[100];
        seconds_of_run(&config, &events);
        for (int r = 0; r < RUNS; r++)
            seconds[r] = seconds_of_run(&config, &events);
        dl_sort_doubles(seconds, RUNS);
        printf("%-48s %8lld events %6.2f M events/s\n",
               dl_point_text(text, sizeof text, &scenario.points[p]), (long long)events,
               (double)events / dl_quantile(seconds, RUNS, 0.5) * 1e-6);
    }
    dl_scenario_free(&scenario);
    dl_costs_free(&costs);
    return 0;
}
