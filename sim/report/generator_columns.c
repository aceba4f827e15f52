/* Columns of rows with [generators], and their summary sentence. */
#include <math.h>

#include "common/alloc.h"
#include "sim/report/columns.h"
#include "sim/report/row_text.h"

#define SECONDS_PER_HOUR 3600.0
#define NEAR_FRAC 0.1  /* relative error of a predicted ratio */
#define BUSY_FRAC 0.98 /* a side busy for more of the time counts as always busy */

static const dl_rollout_result *rollout_of(const void *row)
{
    return ((const dl_result *)row)->row->mean.rollout;
}

static dl_datum member(const void *row, const dl_column *column)
{
    const char *rollout = (const char *)rollout_of(row);
    if (rollout == NULL) return dl_datum_none();
    return dl_datum_number(*(const double *)(const void *)(rollout + column->offset));
}

#define GETTER(name, value)                                          \
    static dl_datum name(const void *row, const dl_column *column)   \
    {                                                                \
        const dl_rollout_result *r = rollout_of(row);                \
        (void)column;                                                \
        return r != NULL ? dl_datum_number(value) : dl_datum_none(); \
    }
#define KEYS (((const dl_result *)row)->variant->scenario.generators)

static double over(double part, double whole)
{
    return whole > 0 ? part / whole : 0;
}

static double usd_per_hour_of(const dl_result *result)
{
    return dl_scenario_usd_per_hour(&result->variant->scenario, &result->row->point);
}

GETTER(trainer_gpus, dl_generators_trainer_gpus(KEYS))
GETTER(generator_gpus, KEYS->generator_gpus)
GETTER(on_policy_s, r->update_s *((const dl_result *)row)->row->speedup)
GETTER(trainer_busy, 1 - r->trainer_frac[DL_ROLLOUT_WAITING] - r->trainer_frac[DL_ROLLOUT_DRAINING])
GETTER(trainer_waits, r->trainer_frac[DL_ROLLOUT_WAITING] + r->trainer_frac[DL_ROLLOUT_DRAINING])
GETTER(generators_idle,
       r->generator_frac[DL_ROLLOUT_WAITING] + r->generator_frac[DL_ROLLOUT_DRAINING])
GETTER(discarded, over(r->tokens.discarded, r->tokens.used + r->tokens.discarded))
GETTER(samples_per_hour, r->samples / r->span_s * SECONDS_PER_HOUR)
GETTER(useful_per_hour, r->useful_tokens_per_s *SECONDS_PER_HOUR)
GETTER(usd_of_update, usd_per_hour_of(row) * r->update_s / SECONDS_PER_HOUR)
GETTER(discarded_age, r->groups.discarded > 0 ? r->discarded_age_mean : (double)NAN)

const char *dl_generators_bound(const dl_row *row)
{
    const dl_rollout_result *r = row->mean.rollout;
    const double *trainer = r->trainer_frac;
    const double waits = trainer[DL_ROLLOUT_WAITING] + trainer[DL_ROLLOUT_DRAINING];
    if (waits > 1 - BUSY_FRAC)
        return r->generator_frac[DL_ROLLOUT_WAITING] > waits / 2 ? "rule" : "generators";
    return trainer[DL_ROLLOUT_COPYING] > trainer[DL_ROLLOUT_WORKING] ? "copies" : "trainer";
}

/* Returns which is faster, generation beside the trainer or in turn with it, if the prediction can
 * tell. */
static const char *faster_of(double speedup)
{
    return fabs(speedup - 1) < NEAR_FRAC ? "cannot tell" : speedup > 1 ? "this" : "on policy";
}

static dl_datum faster(const void *row, const dl_column *column DL_UNUSED)
{
    if (rollout_of(row) == NULL || KEYS->colocated) return dl_datum_none();
    return dl_datum_text(faster_of(((const dl_result *)row)->row->speedup));
}

static dl_datum bound_of(const void *row, const dl_column *column DL_UNUSED)
{
    if (rollout_of(row) == NULL) return dl_datum_none();
    return dl_datum_text(dl_generators_bound(((const dl_result *)row)->row));
}

#define AT(name_, unit_, member_, ...)                                                     \
    {                                                                                      \
        .name = (name_), .unit = (unit_), .group = DL_COLUMNS_OF_GENERATORS,               \
        .offset = offsetof(dl_rollout_result, member_), .get = member, .help = __VA_ARGS__ \
    }
#define BY(get_, name_, unit_, ...)                                                         \
    {                                                                                       \
        .name = (name_), .unit = (unit_), .group = DL_COLUMNS_OF_GENERATORS, .get = (get_), \
        .help = __VA_ARGS__                                                                 \
    }

/* clang-format off */
const dl_column dl_generator_columns[] = {
    BY(trainer_gpus, "trainer_gpus", NULL, "number of GPUs that train", DL_PLAIN("trainer GPUs", 0)),
    BY(generator_gpus, "generator_gpus_used", NULL, "number of GPUs that generate", DL_PLAIN("gen. GPUs", 0)),
    AT("update_s", "s", update_s, "mean time of an update", DL_TIME("update")),
    BY(on_policy_s, "on_policy_update_s", "s",
       "the same on policy, the baseline of `speedup`", DL_TIME("on policy")),
    BY(faster, "faster", NULL,
       "which is faster: `this`, `on policy`, or `cannot tell` (within a tenth)"),
    BY(samples_per_hour, "samples_per_hour", "answers/h", "number that updates used", DL_RATE("answers/h")),
    BY(useful_per_hour, "useful_tokens_per_hour", "tokens/h",
       "those generated that updates used", DL_RATE("useful tokens/h")),
    AT("generated_tokens_per_s", "tokens/s", tokens_per_s,
       "generation of all replicas", DL_RATE("tokens/s")),
    BY(usd_of_update, "usd_per_update", "USD",
       "price of an update on all `gpus`, by `usd_per_gpu_hour` or the machine's price", DL_PLAIN("USD/update", 3)),
    BY(bound_of, "bound_side", NULL,
       "what an update waits for: `trainer`, `copies`, `generators`, or the "
       "`rule`", DL_WORD("bound side")),
    BY(trainer_busy, "trainer_busy_frac", NULL,
       "share of the trainer's time without waiting and draining"),
    AT("trainer_working_frac", NULL, trainer_frac[DL_ROLLOUT_WORKING],
       "share of the trainer's time in updates (these five add up to 1)", DL_PERCENT("trains %", 1)),
    AT("trainer_waiting_frac", NULL, trainer_frac[DL_ROLLOUT_WAITING], "share of waiting for complete groups"),
    AT("trainer_draining_frac", NULL, trainer_frac[DL_ROLLOUT_DRAINING], "share of waiting for answers that must end before a copy"),
    AT("trainer_copying_frac", NULL, trainer_frac[DL_ROLLOUT_COPYING], "share in copies of the weights, or changes of sides", DL_PERCENT("copies %", 1)),
    AT("trainer_validating_frac", NULL, trainer_frac[DL_ROLLOUT_VALIDATING], "share in validation"),
    BY(trainer_waits, NULL, NULL, NULL, DL_PERCENT("waits %", 1)),
    AT("generators_working_frac", NULL, generator_frac[DL_ROLLOUT_WORKING],
       "share of the replicas' time with requests in flight (these five add up to 1)"),
    AT("generators_idle_frac", NULL, generator_frac[DL_ROLLOUT_WAITING], "share with no request that may begin"),
    AT("generators_draining_frac", NULL, generator_frac[DL_ROLLOUT_DRAINING],
       "share of waiting for other replicas before a copy"),
    AT("generators_copying_frac", NULL, generator_frac[DL_ROLLOUT_COPYING], "share in which generation stops for a copy", DL_PERCENT("gen. copy %", 1)),
    AT("generators_validating_frac", NULL, generator_frac[DL_ROLLOUT_VALIDATING], "share in validation"),
    BY(generators_idle, NULL, NULL, NULL, DL_PERCENT("gen. idle %", 1)),
    AT("requests_mean", NULL, requests_mean, "mean number of requests in flight on a replica", DL_PLAIN("requests", 1)),
    AT("requests_at_max_frac", NULL, at_max_frac, "share of the replicas' time with `requests_max` in flight", DL_PERCENT("at max %", 1)),
    AT("in_flight_mean", "groups", in_flight_mean,
       "mean number of incomplete groups, begun or admitted", DL_PLAIN("in flight", 1)),
    AT("queue_mean", "groups", queue_mean,
       "mean number of complete groups that wait", DL_PLAIN("queue", 1)),
    AT("group_s", "s", group_s, "mean time of a group from admission to completion"),
    AT("queue_s", "s", queue_s, "mean time until the trainer takes or discards it"),
    AT("length_mean_used", "tokens", length_mean, "mean length of the answers that updates used"),
    AT("batch_tokens", "tokens", batch_tokens,
       "those that the trainer processes in an update, with prompts"),
    AT("tokens_begun", "tokens", tokens.begun, "number generated in the whole run, the sum of the next three"),
    AT("tokens_used", "tokens", tokens.used, "those that updates used"),
    AT("tokens_discarded", "tokens", tokens.discarded, "those of groups older than `age_max`"),
    AT("tokens_left", "tokens", tokens.left, "those complete or in flight at the end"),
    BY(discarded, "tokens_discarded_frac", NULL, "discarded tokens over used and discarded ones", DL_PERCENT("discarded %", 1)),
    AT("groups_begun", NULL, groups.begun, "the same for groups"),
    AT("groups_used", NULL, groups.used, NULL),
    AT("groups_discarded", NULL, groups.discarded, NULL),
    AT("groups_left", NULL, groups.left, NULL),
    AT("age_mean", "updates", age_mean,
       "mean [age](rl.md) of a used group (also `staleness`)", DL_PLAIN("age", 2)),
    AT("age_p95", "updates", age_p95, "its 95 % quantile", DL_PLAIN("age p95", 0)),
    AT("age_max_used", "updates", age_max, "its largest value", DL_PLAIN("age max", 0)),
    AT("newest_age_mean", "updates", newest_age_mean, "mean and largest age by the group's newest token", DL_PLAIN("newest", 2)),
    AT("newest_age_max", "updates", newest_age_max, NULL),
    BY(discarded_age, "discarded_age_mean", "updates", "mean age of the groups that were discarded"),
    AT("outstanding_mean", NULL, outstanding_mean,
       "groups begun and not yet taken at the ends of updates, over `prompts`; with a copy at "
       "each update the mean age of all groups"),
};
/* clang-format on */
const size_t dl_generator_column_count = DL_LENGTH(dl_generator_columns);

char *dl_generators_answer(const dl_result *best, bool among_several)
{
    static const dl_column seconds = {.form = DL_FORM_TIME};
    const dl_row *row = best->row;
    const dl_rollout_result *r = row->mean.rollout;
    const dl_generators *g = best->variant->scenario.generators;
    char options[DL_REPORT_OPTIONS_BYTES];
    dl_report_options(options, sizeof options, best->study, row);
    DL_AUTOFREE char *update = dl_column_number_text(&seconds, r->update_s);
    DL_AUTOFREE char *who = g->colocated
                                ? dl_format("%d GPUs in turn", g->gpus)
                                : dl_format("%d GPUs generate, %d train", g->generator_gpus,
                                            dl_generators_trainer_gpus(g));
    const double waits = r->trainer_frac[DL_ROLLOUT_WAITING] + r->trainer_frac[DL_ROLLOUT_DRAINING];
    const bool near = !g->colocated && fabs(row->speedup - 1) < NEAR_FRAC;
    return dl_format(
        "%s%s%s%s: %s an update, %s answers an hour, %.3g times on policy%s. The trainer waits for "
        "%.0f %% of the time, generators for %.0f %%; bound by %s. Age %.2f updates on average, at "
        "most %.0f.",
        among_several ? "Fastest: " : "", who, options[0] != '\0' ? ", " : "", options, update,
        DL_RATE_TEXT(r->samples / r->span_s * SECONDS_PER_HOUR), row->speedup,
        near ? ": cannot tell which is faster" : "", 100 * waits,
        100 * r->generator_frac[DL_ROLLOUT_WAITING], dl_generators_bound(row), r->age_mean,
        r->age_max);
}
