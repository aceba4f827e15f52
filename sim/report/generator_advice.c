#include "sim/report/generator_advice.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/wrap.h"
#include "sim/fits.h"
#include "sim/report/columns.h"
#include "sim/report/report.h"

#define SPLITS 12     /* splits tried at first; later ones lie next to the best of them */
#define BOUND_MAX 8.0 /* largest bound tried, even if the largest staleness is higher */
#define NEAR 1.01     /* the least stale setting within 1 % of the fastest is advised */

/* A sweep of the scenario with changed keys. */
typedef struct trial {
    char *text;
    dl_study study;
    dl_sweep sweep;
    size_t best; /* row index; row_count: no row is within the largest staleness */
} trial;

static void free_trial(trial *t)
{
    dl_sweep_free(&t->sweep);
    dl_study_free(&t->study);
    free(t->text);
    *t = (trial){0};
}

/* Returns the row with the highest rate of answers among those with a mean age of at most `age`; of
 * rows within 1 % of that rate, the one with the least staleness. */
static size_t best_of(const dl_sweep *sweep, double age)
{
    size_t best = sweep->row_count;
    double most = 0;
    for (size_t i = 0; i < sweep->row_count; i++) {
        const dl_row *row = &sweep->rows[i];
        if (row->error != NULL || !dl_advice_is_fresh(row->staleness_mean, age)) continue;
        most = fmax(most, row->mean.throughput_per_s);
    }
    for (size_t i = 0; i < sweep->row_count; i++) {
        const dl_row *row = &sweep->rows[i];
        if (row->error != NULL || !dl_advice_is_fresh(row->staleness_mean, age)) continue;
        if (row->mean.throughput_per_s * NEAR < most) continue;
        if (best < sweep->row_count && row->staleness_mean >= sweep->rows[best].staleness_mean)
            continue;
        best = i;
    }
    return best;
}

static dl_status none_fits(const trial *t, dl_error *err)
{
    const dl_row *row = &t->sweep.rows[0];
    const dl_variant *variant = &t->study.variants[row->variant];
    DL_AUTOFREE char *text =
        dl_fits_text(&variant->scenario, &variant->costs, &row->point, &row->memory);
    dl_error_set(err, DL_ERR_UNFIT, "--advise: no split fits; the first %s: %s", row->error, text);
    return DL_ERR_UNFIT;
}

/* Reads and simulates the trial. Takes ownership of `text`. */
static dl_status run_trial(trial *t, const dl_study *study, char *text,
                           const dl_advice_config *config, double age, dl_error *err)
{
    const dl_sweep_config sweep = {.threads = config->threads,
                                   .pace = config->pace,
                                   .progress = config->progress,
                                   .user = config->user,
                                   .no_influences = true};
    *t = (trial){.text = text};
    dl_status status = dl_study_read_text(&t->study, study->path, text, strlen(text), err);
    if (status == DL_OK) status = dl_study_read_costs(&t->study, err);
    if (status == DL_OK) status = dl_sweep_run(&t->sweep, &t->study, &sweep, err);
    if (status == DL_OK && dl_fits_check(&t->study, &t->sweep, err) != DL_OK)
        status = none_fits(t, err);
    if (status == DL_OK) t->best = best_of(&t->sweep, age);
    if (status != DL_OK) free_trial(t);
    return status;
}

/* Whether the GPUs can be split this way: whole replicas, and whole workers of the trainer. */
static bool is_split(const dl_study *study, int generator_gpus)
{
    const dl_scenario *scenario = &study->variants[0].scenario;
    const dl_generators *g = scenario->generators;
    const int ranks =
        dl_scenario_trains_by_keys(scenario) ? 1 : dl_point_ranks(&scenario->points[0]);
    const int trainer = g->gpus - generator_gpus;
    return generator_gpus > 0 && trainer > 0 && generator_gpus % g->replica_gpus == 0 &&
           trainer % ranks == 0;
}

/* Returns at most SPLITS possible values of generator_gpus, evenly spaced from low to high, "8, 16,
 * 24"; the caller frees the text. */
static char *splits_between(const dl_study *study, int low, int high)
{
    int count = 0, last = 0;
    char *list = NULL;
    for (int n = low; n <= high; n++)
        count += is_split(study, n);
    for (int n = low, i = 0; n <= high; n++) {
        if (!is_split(study, n)) continue;
        const int place = count > SPLITS ? 1 + i * SPLITS / count : 1 + i;
        i++;
        if (place == last) continue;
        last = place;
        dl_join_format(&list, ", ", "%d", n);
    }
    return list;
}

static char *bounds_up_to(double most)
{
    char *list = NULL;
    for (double bound = 0; bound <= fmin(most, BOUND_MAX); bound = bound > 0 ? 2 * bound : 1) {
        dl_join_format(&list, ", ", "%g", bound);
    }
    return list;
}

/* Returns values for in_flight, from half to eight times the groups of an update; the caller frees
 * it. */
static char *flights(const dl_generators *g)
{
    static const double updates[] = {0.5, 0.75, 1, 1.5, 2, 3, 4, 6, 8};
    char *list = NULL;
    for (size_t i = 0; i < DL_LENGTH(updates); i++) {
        dl_join_format(&list, ", ", "%.0f", ceil(updates[i] * g->prompts));
    }
    return list;
}

/* Returns the trial's text with its lists replaced by the best row's values; the caller frees
 * it. */
static char *text_of_best(const trial *t)
{
    char *text = dl_strdup(t->text);
    const dl_variant *variant = &t->study.variants[t->sweep.rows[t->best].variant];
    for (size_t k = 0; k < t->study.key_count; k++) {
        const dl_swept_key *key = &t->study.keys[k];
        if (variant->at[k] < key->count)
            dl_ini_text_set(&text, key->section, key->key, key->values[variant->at[k]]);
    }
    return text;
}

static void put(char **text, const char *key, char *value)
{
    dl_ini_text_set(text, "generators", key, value);
    free(value);
}

/* Returns the text for splits between the best split's neighbours among those tried, at the best
 * bound; the caller frees it. */
static char *closer_text(const trial *t, const dl_study *study)
{
    const dl_row *best = &t->sweep.rows[t->best];
    const int at = t->study.variants[best->variant].scenario.generators->generator_gpus;
    const int gpus = t->study.variants[0].scenario.generators->gpus;
    int low = 1, high = gpus - 1;
    for (size_t v = 0; v < t->study.variant_count; v++) {
        const int other = t->study.variants[v].scenario.generators->generator_gpus;
        if (other < at && other >= low) low = other + 1;
        if (other > at && other <= high) high = other - 1;
    }
    char *text = text_of_best(t);
    put(&text, "generator_gpus", splits_between(study, low, high));
    return text;
}

static void print_advice(FILE *out, const trial *t, const dl_generators *g)
{
    const dl_row *row = &t->sweep.rows[t->best];
    DL_SCOPED(dl_results) results;
    dl_results_make(&results, &t->study, &t->sweep, NULL, false);
    DL_AUTOFREE char *answer = dl_generators_answer(&results.results[t->best], false);
    dl_wrap_print(out, 2, "Advised: %s", answer);
    if (row->speedup < 1.1)
        fprintf(out, "%s\n",
                row->speedup < 0.9
                    ? "On policy, with all GPUs in turn, is faster: place = colocated."
                    : "On policy, with all GPUs in turn, is about as fast: cannot tell which is "
                      "faster.");
    fprintf(out, "Requests in flight on a replica: %.0f on average.\n",
            row->mean.rollout->requests_mean);
    DL_AUTOFREE char *limit = g->rule == DL_RULE_WORKERS
                                  ? dl_format("in_flight=%lld", (long long)g->in_flight)
                                  : dl_format("bound=%g", g->bound);
    fprintf(out,
            "  --set generators.generator_gpus=%d --set generators.%s --set generators.copies=%s "
            "--set generators.partial=%s\n",
            g->generator_gpus, limit, g->in_turn ? "in_turn" : "at_once", g->drains ? "no" : "yes");
}

dl_status dl_generators_advise(const dl_study *study, const dl_advice_config *config,
                               const char *path, FILE *out, char **text, dl_error *err)
{
    const dl_generators *g = study->variants[0].scenario.generators;
    const double age = isnan(config->max_staleness) ? g->bound : config->max_staleness;
    trial first = {0}, closer = {0}, last = {0};
    char *wide = dl_strdup(study->text);
    *text = NULL;
    if (g->colocated) {
        free(wide);
        return dl_error_set_at(err, DL_ERR_USAGE, study->path, 0,
                               "--advise looks for a split: not with place = colocated");
    }
    put(&wide, "generator_gpus", splits_between(study, 1, g->gpus - 1));
    if (g->rule == DL_RULE_WORKERS) {
        put(&wide, "in_flight", flights(g));
    } else {
        put(&wide, "bound", bounds_up_to(fmax(age, g->copy_every - 1)));
    }
    dl_status status = run_trial(&first, study, wide, config, age, err);
    if (status == DL_OK && first.best == first.sweep.row_count) {
        status = dl_error_set_at(err, DL_ERR_DATA, study->path, 0,
                                 "no split has a mean age of %g updates or less", age);
    }
    if (status == DL_OK)
        status = run_trial(&closer, study, closer_text(&first, study), config, age, err);
    if (status == DL_OK && closer.best == closer.sweep.row_count) closer.best = 0;
    if (status == DL_OK) {
        char *ways = text_of_best(&closer);
        if (g->copy_s > 0) {
            put(&ways, "copies", dl_strdup("at_once, in_turn"));
            put(&ways, "partial", dl_strdup("yes, no"));
        }
        status = run_trial(&last, study, ways, config, age, err);
    }
    if (status == DL_OK && last.best == last.sweep.row_count) last.best = 0;
    if (status == DL_OK) {
        *text = text_of_best(&last);
        dl_measured *measured = NULL;
        status = dl_measured_read(&measured, &first.study, err);
        if (status == DL_OK)
            status = dl_report_results(path, &first.study, &first.sweep, measured, NULL, err);
        if (status == DL_OK && out != NULL) {
            const dl_variant *best = &last.study.variants[last.sweep.rows[last.best].variant];
            dl_report_table(out, &first.study, &first.sweep, measured, false);
            print_advice(out, &last, best->scenario.generators);
        }
        dl_measured_free(measured, first.study.point_count);
    }
    free_trial(&first);
    free_trial(&closer);
    free_trial(&last);
    return status;
}
