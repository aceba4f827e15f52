#include "sim/failures.h"

#include <math.h>

/* Expected time, in s, of an attempt of work_s followed by after_s that is repeated until both are
 * done without a failure. */
static double expected_s(const dl_failures *f, double mean_s, double work_s, double after_s)
{
    return mean_s * exp(f->restart_s / mean_s) * expm1((work_s + after_s) / mean_s);
}

double dl_failures_mean_s(const dl_failures *failures, int parts, int nodes)
{
    const double per_s = (failures->mtbf_s > 0 ? parts / failures->mtbf_s : 0) +
                         (failures->node_mtbf_s > 0 ? nodes / failures->node_mtbf_s : 0);
    return per_s > 0 ? 1 / per_s : 0;
}

/* Goodput under random failures with a checkpoint after each `every` steps. */
static double expected_goodput(const dl_failures *f, double mean_s, int64_t steps, int64_t every,
                               double step_s)
{
    if (every <= 0 || every > steps) every = steps;
    const int64_t whole = (steps - 1) / every; /* pieces of work that end with a checkpoint */
    const double last_s = (double)(steps - whole * every) * step_s;
    const double all_s =
        (double)whole * expected_s(f, mean_s, (double)every * step_s, f->checkpoint_s) +
        expected_s(f, mean_s, last_s, 0);
    return (double)steps * step_s / all_s;
}

static double goodput_at(const dl_failures *f, int64_t steps, double step_s)
{
    const int64_t every = f->checkpoint_steps > 0 ? f->checkpoint_steps : steps;
    int64_t saved = 0;
    double now_s = 0;
    size_t next = 0;
    while (saved < steps) {
        const int64_t piece = steps - saved < every ? steps - saved : every;
        const double end_s =
            now_s + (double)piece * step_s + (saved + piece < steps ? f->checkpoint_s : 0);
        while (next < f->at_count && f->at_s[next] < now_s)
            next++; /* failures while the job was down */
        if (next < f->at_count && f->at_s[next] < end_s) {
            now_s = f->at_s[next++] + f->restart_s;
        } else {
            now_s = end_s;
            saved += piece;
        }
    }
    return (double)steps * step_s / now_s;
}

double dl_failures_goodput(const dl_failures *failures, double mean_s, int64_t steps, double step_s)
{
    if (failures->steps > 0) steps = failures->steps;
    if (mean_s > 0) {
        return expected_goodput(failures, mean_s, steps, failures->checkpoint_steps, step_s);
    }
    return goodput_at(failures, steps, step_s);
}

/* Expected time per step, in s, with a checkpoint after each `every` steps. Ignoring the shorter
 * piece of work at the end of the job makes it a function of `every` with a single minimum. */
static double cost_of(const dl_failures *f, double mean_s, int64_t every, double step_s)
{
    return expected_s(f, mean_s, (double)every * step_s, f->checkpoint_s) / (double)every;
}

int64_t dl_failures_best_steps(const dl_failures *failures, double mean_s, int64_t steps,
                               double step_s)
{
    if (failures->steps > 0) steps = failures->steps;
    if (!(mean_s > 0)) return 0;
    int64_t low = 1, high = steps;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (cost_of(failures, mean_s, middle, step_s) <=
            cost_of(failures, mean_s, middle + 1, step_s)) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}
