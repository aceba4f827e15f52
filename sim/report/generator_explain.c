/* Explanation of a row with [generators]: where its time goes, and the simulated changes that
 * help. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/sort.h"
#include "common/units.h"
#include "sim/report/columns.h"
#include "sim/report/explain.h"

#define REPLICATES 5
#define GAIN_FRAC 0.01
#define SHOWN_FRAC 0.005

/* A copy of a variant's run with one change. */
typedef struct changed {
    dl_scenario scenario;
    dl_generators generators;
    dl_costs costs; /* its pointers are borrowed from the variant */
    double compute_log;
} changed;

static void change_trainer(changed *c, double factor)
{
    c->generators.train_fixed_s *= factor;
    c->generators.train_token_gpu_s *= factor;
    c->costs.trainer.fixed_ns.value *= factor;
    c->costs.trainer.token_gpu_ns.value *= factor;
    c->compute_log = log(factor);
}

static void change_decode(changed *c, double factor)
{
    c->generators.decode_log += log(factor);
}

static void change_copies(changed *c, double factor)
{
    c->generators.copy_s *= factor;
    c->generators.pause_s *= factor;
    c->generators.prefill_token_s *= factor;
}

static void change_spread(changed *c, double factor)
{
    c->generators.length_cv *= factor;
}

static void change_tools(changed *c, double factor)
{
    c->generators.tool_s *= factor;
}

static void change_validation(changed *c, double factor)
{
    c->generators.validation_s *= factor;
}

static const struct {
    const char *cost, *what;
    void (*change)(changed *c, double factor);
} changes[] = {
    {"trainer", "the trainer's time of an update", change_trainer},
    {"generation", "the time of a token on the replicas", change_decode},
    {"copies", "copies of the weights", change_copies},
    {"spread", "the spread of the lengths", change_spread},
    {"tools", "waits for tools and rewards", change_tools},
    {"validation", "validation", change_validation},
};

/* Mean throughput over the replicates, with one quantity scaled by `factor` (`change` NULL: nothing
 * is scaled); NaN if a run fails. */
static double throughput(const dl_variant *variant, const dl_point *point,
                         void (*change)(changed *c, double factor), double factor)
{
    changed c = {.scenario = variant->scenario,
                 .generators = *variant->scenario.generators,
                 .costs = variant->costs};
    if (change != NULL) change(&c, factor);
    c.scenario.generators = &c.generators;
    const int64_t wanted = variant->scenario.replicates;
    const int64_t replicates = wanted < REPLICATES ? wanted : REPLICATES;
    double sum = 0;
    for (int64_t r = 0; r < replicates; r++) {
        const dl_run_config config = {.scenario = &c.scenario,
                                      .costs = &c.costs,
                                      .point = point,
                                      .replicate = (uint32_t)r,
                                      .compute_log = c.compute_log};
        DL_SCOPED(dl_run_result) result = {0};
        const bool ran = dl_run(&config, &result, NULL) == DL_OK;
        sum += ran ? result.throughput_per_s : (double)NAN;
    }
    return sum / (double)replicates;
}

DL_ORDER(by_worth, dl_gain, DL_COMPARE(dl_gain_worth(b), dl_gain_worth(a)));

void dl_generators_gains(dl_gains *gains, const dl_variant *variant, const dl_row *row)
{
    *gains = (dl_gains){.per_s = throughput(variant, &row->point, NULL, 1)};
    for (size_t i = 0; i < DL_LENGTH(changes); i++) {
        const dl_gain gain = {
            .cost = changes[i].cost,
            .what = changes[i].what,
            .half = throughput(variant, &row->point, changes[i].change, 0.5) / gains->per_s,
            .none = (double)NAN,
        };
        if (fabs(gain.half - 1) >= GAIN_FRAC) gains->all[gains->count++] = gain;
    }
    qsort(gains->all, gains->count, sizeof *gains->all, by_worth);
}

static void put_share(char **text, double frac, const char *what, bool *any)
{
    if (frac < SHOWN_FRAC) return;
    dl_extend(text, "%s%.0f %% %s", *any ? ", " : "", 100 * frac, what);
    *any = true;
}

void dl_generators_explain(char **text, const dl_variant *variant, const dl_row *row)
{
    static const char *const of_trainer[] = {"training", "waiting for groups",
                                             "waiting for answers that end before a copy",
                                             "copying weights", "validating"};
    static const char *const of_replica[] = {"answering", "with nothing that may begin",
                                             "waiting for others to end before a copy",
                                             "standing still for copies", "validating"};
    const dl_rollout_result *r = row->mean.rollout;
    const char *bound = dl_generators_bound(row);
    bool any = false;
    dl_extend(text,
              "An update takes %s. The trainer's time: ", DL_NS_TEXT(dl_s_to_ns(r->update_s)));
    for (int s = 0; s < DL_ROLLOUT_STATES; s++)
        put_share(text, r->trainer_frac[s], of_trainer[s], &any);
    dl_extend(text, ".\nA replica's time: ");
    any = false;
    for (int s = 0; s < DL_ROLLOUT_STATES; s++)
        put_share(text, r->generator_frac[s], of_replica[s], &any);
    dl_extend(text, "; %.1f requests in flight on average, at the maximum for %.0f %%.\n",
              r->requests_mean, 100 * r->at_max_frac);
    if (strcmp(bound, "rule") == 0) {
        dl_extend(text,
                  "Neither side is busy all the time: each waits for the other. A larger bound "
                  "lets them work side by side.\n");
    } else if (strcmp(bound, "generators") == 0) {
        dl_extend(text, "The generators are the bottleneck: the trainer waits for them.\n");
    } else {
        dl_extend(text,
                  "The trainer is the bottleneck%s: a larger bound on staleness gains nothing.\n",
                  strcmp(bound, "copies") == 0 ? ", due to copies" : "");
    }
    if (variant->scenario.generators->colocated) return;
    const double gain = row->speedup;
    dl_extend(text,
              "On policy, the same %d GPUs in turn would take %s an update: this is %.2f times as "
              "fast%s.\n",
              variant->scenario.generators->gpus, DL_NS_TEXT(dl_s_to_ns(gain * r->update_s)), gain,
              gain > 0.9 && gain < 1.1 ? ": cannot tell which of the two is faster" : "");
}
