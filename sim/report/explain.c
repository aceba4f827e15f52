#include "sim/report/explain.h"
#include "sim/report/row_text.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/units.h"
#include "common/wrap.h"
#include "sim/report/html.h"
#include "sim/report/views.h"
#include "sim/scenario/without.h"
#include "sim/statistics.h"

#define SECONDS_PER_HOUR 3600.0
#define DRAWN_WORKERS 8
#define ENOUGH_FRAC 0.9
#define CHANGED_FRAC 0.03 /* smallest change of a part that is mentioned, as a fraction of a step */
#define SPEEDUP_SHOWN 0.01
#define GAIN_FRAC 0.01 /* smallest gain that is named */
#define GAINS_SHOWN 3  /* gains named in the text */

#define GAIN_ROUNDS 4 /* minimum rounds of exchange in a shortened run */
#define GAIN_REPLICATES 5
#define GAIN_EVENTS 2000000     /* limit on the events of all replicates together */
#define GAIN_EVENTS_ONE 1000000 /* limit on the events of one shortened replicate */
#define GAIN_EVENTS_MAX 5000000 /* events of one full replicate; with more, nothing is simulated */

/* --- series ----------------------------------------------------------------------------------- */

static dl_result result_of(const dl_explanation *x, size_t row)
{
    const dl_row *r = &x->sweep->rows[row];
    return (dl_result){.study = x->study, .variant = &x->study->variants[r->variant], .row = r};
}

/* Whether the scenario's workers share a given number of cores instead of having one core each. */
static bool shares_cores(const dl_scenario *scenario)
{
    for (size_t p = 0; p < scenario->point_count; p++) {
        const dl_point *point = &scenario->points[p];
        if (point->cores != DL_CORES_GPU && point->cores != point->workers) return true;
    }
    return false;
}

/* Returns "batch 128, ps, where gpu:0"; the caller frees it. */
static char *label_of(const dl_study *study, const dl_row *row)
{
    const dl_point *point = &row->point;
    const bool weak = study->variants[row->variant].scenario.batch_per_worker;
    const bool shared = shares_cores(&study->variants[row->variant].scenario);
    char options[DL_REPORT_OPTIONS_BYTES], cores[32] = "";
    if (shared)
        snprintf(cores, sizeof cores, "%d core%s, ", point->cores, point->cores == 1 ? "" : "s");
    dl_report_options(options, sizeof options, study, row);
    return dl_format("%sbatch %lld%s, %s%s%s", cores,
                     (long long)(weak ? point->batch / point->workers : point->batch),
                     weak ? " each" : "", dl_point_mode(point), options[0] != '\0' ? ", " : "",
                     options);
}

static bool is_in(const dl_explanation *x, size_t row, const char *label)
{
    return x->labels[row] != NULL && strcmp(x->labels[row], label) == 0;
}

/* Returns the best of all rows; row_count if none ran. */
static size_t find_first(const dl_explanation *x)
{
    size_t first = x->sweep->row_count;
    for (size_t i = 0; i < x->sweep->row_count; i++) {
        if (x->labels[i] == NULL) continue;
        if (first < x->sweep->row_count) {
            const dl_result own = result_of(x, i), other = result_of(x, first);
            if (!dl_result_is_better(&own, &other)) continue;
        }
        first = i;
    }
    return first;
}

/* Returns the label of the series to explain: that of row x->first, unless another one has more
 * measured rows. */
static const char *choose(const dl_explanation *x, const dl_measured *measured)
{
    const char *chosen = NULL;
    int most = -1;
    for (size_t i = 0; i <= x->sweep->row_count; i++) {
        const char *label = i == 0 ? x->labels[x->first] : x->labels[i - 1];
        int with_measured = 0;
        for (size_t j = 0; label != NULL && j < x->sweep->row_count; j++)
            with_measured += is_in(x, j, label) && measured[j].runs > 0;
        if (with_measured <= most) continue;
        chosen = label;
        most = with_measured;
    }
    return chosen;
}

/* Returns the row of the series with the most workers up to `limit`; row_count if there is none. */
static size_t most_up_to(const dl_explanation *x, const char *label, int limit)
{
    size_t best = x->sweep->row_count;
    for (size_t i = 0; i < x->sweep->row_count; i++) {
        const int workers = x->sweep->rows[i].point.workers;
        if (!is_in(x, i, label) || workers > limit) continue;
        if (best == x->sweep->row_count || workers > x->sweep->rows[best].point.workers) best = i;
    }
    return best;
}

/* --- sentences -------------------------------------------------------------------------------- */

static const char *workers_text(const dl_row *row)
{
    const bool gpus = row->point.cores == DL_CORES_GPU && !dl_point_is_split(&row->point);
    if (row->point.workers == 1) return gpus ? "GPU" : "worker";
    return gpus ? "GPUs" : "workers";
}

static void put_change(char **text, double from_s, double to_s)
{
    dl_extend(text, "from %s to %s", DL_NS_TEXT(dl_s_to_ns(from_s)), DL_NS_TEXT(dl_s_to_ns(to_s)));
}

static void put_dominant(char **text, const dl_explanation *x)
{
    const dl_result of = result_of(x, x->row);
    const dl_row *row = of.row;
    const double *frac = row->mean.part_frac;
    char bound[DL_BOUND_TEXT_BYTES];
    dl_part order[DL_PART_COUNT];
    dl_parts_sort(frac, order);
    dl_extend(text, "With %d %s (%s) a step takes %s. %s of it is %s: %.0f %%", row->point.workers,
              workers_text(row), x->labels[x->row], DL_NS_TEXT(dl_s_to_ns(row->mean.step_mean_s)),
              frac[order[0]] > 0.5 ? "Most" : "The largest part", dl_part_names[order[0]],
              100 * frac[order[0]]);
    if (order[0] == DL_PART_COMMUNICATION || order[0] == DL_PART_WAITING)
        dl_extend(text, ", bound by %s", dl_result_bound(&of, bound));
    if (frac[order[1]] >= DL_PART_SHOWN_FRAC) {
        dl_extend(text, "; then ");
        dl_parts_put(text, row, 1);
    }
    dl_extend(text, ".\n");
}

void dl_explain_growth(char **text, const dl_row *from, const dl_row *to)
{
    const double from_s = from->mean.step_mean_s, to_s = to->mean.step_mean_s;
    double change[DL_PART_COUNT];
    dl_part order[DL_PART_COUNT];
    for (int p = 0; p < DL_PART_COUNT; p++)
        change[p] = fabs(to->mean.part_frac[p] * to_s - from->mean.part_frac[p] * from_s);
    dl_parts_sort(change, order);
    dl_extend(text, "From %d to %d %s a worker's step goes ", from->point.workers,
              to->point.workers, workers_text(to));
    put_change(text, from_s, to_s);
    if (change[order[0]] < CHANGED_FRAC * fmax(from_s, to_s)) {
        dl_extend(text, "; no part of it changes by %.0f %% of the step", 100 * CHANGED_FRAC);
    }
    for (int p = 0; p < DL_PART_COUNT; p++) {
        const dl_part part = order[p];
        if (change[part] < CHANGED_FRAC * fmax(from_s, to_s)) break;
        dl_extend(text, "%s %s ", p == 0 ? ":" : ",", dl_part_names[part]);
        put_change(text, from->mean.part_frac[part] * from_s, to->mean.part_frac[part] * to_s);
    }
    if (from->speedup >= SPEEDUP_SHOWN && to->speedup >= SPEEDUP_SHOWN) {
        dl_extend(text, "; the speedup over %s goes from %.2f to %.2f",
                  to->baseline_text[0] != '\0' ? to->baseline_text : "one worker", from->speedup,
                  to->speedup);
        DL_AUTOFREE char *above = dl_report_above(to);
        if (above != NULL) dl_extend(text, ", %s", above);
    }
    dl_extend(text, ".\n");
}

/* Writes the highest throughput with its number of workers, and the fewest workers that reach
 * ENOUGH_FRAC of it. */
static void put_enough(char **text, const dl_explanation *x)
{
    const dl_row *best = &x->sweep->rows[x->best], *enough = &x->sweep->rows[x->enough];
    dl_extend(text, "Of the simulated numbers, %d %s %s the highest throughput, %s samples/s",
              best->point.workers, workers_text(best), best->point.workers == 1 ? "gives" : "give",
              DL_RATE_TEXT(best->mean.throughput_per_s));
    if (enough != best) {
        dl_extend(text, "; %d %s %.0f %% of it", enough->point.workers,
                  enough->point.workers == 1 ? "reaches" : "reach",
                  100 * enough->mean.throughput_per_s / best->mean.throughput_per_s);
    }
    dl_extend(text, ".\n");
}

/* Writes the best of all points: the first to reach the target if there is one, else the
 * fastest. */
static void put_first(char **text, const dl_explanation *x)
{
    const dl_result best = result_of(x, x->first), above = result_of(x, x->row);
    const dl_row *first = best.row, *row = above.row;
    const double target_s = dl_result_target_s(&best), above_s = dl_result_target_s(&above);
    const bool timed = !isnan(target_s);
    dl_extend(text, "The %s of all points: %d %s (%s), ", timed ? "first at the target" : "fastest",
              first->point.workers, workers_text(first), x->labels[x->first]);
    if (timed) dl_extend(text, "in %.4g hours, ", target_s / SECONDS_PER_HOUR);
    dl_extend(text, "%s samples/s, ", DL_RATE_TEXT(first->mean.throughput_per_s));
    if (timed && !isnan(above_s)) {
        dl_extend(text, "in %.2f times the time", target_s / above_s);
    } else {
        dl_extend(text, "%.2f times those",
                  first->mean.throughput_per_s / row->mean.throughput_per_s);
    }
    dl_extend(text, " of the %d %s above.\n", row->point.workers, workers_text(row));
}

/* Returns the sentences that both renderings share, one per line; the caller frees them. */
static char *sentences(const dl_explanation *x)
{
    char *text = NULL;
    const size_t count = x->sweep->row_count;
    const dl_row *rows = x->sweep->rows;
    if (x->row == count) {
        bool any = false;
        for (size_t i = 0; i < count; i++)
            any |= x->labels[i] != NULL;
        dl_extend(&text, "%s",
                  any ? "That point could not run.\n" : "No point of this scenario could run.\n");
    } else if (rows[x->row].mean.rollout != NULL) {
        dl_generators_explain(&text, &x->study->variants[rows[x->row].variant], &rows[x->row]);
    } else {
        put_dominant(&text, x);
        if (x->before != count) dl_explain_growth(&text, &rows[x->before], &rows[x->row]);
        if (x->before != count) put_enough(&text, x);
        if (strcmp(x->labels[x->first], x->labels[x->row]) != 0) put_first(&text, x);
    }
    return text;
}

/* --- possible gains --------------------------------------------------------------------------- */

/* Possible changes: the cost (a name of --without; NULL: compute), the runs to which it applies,
 * and the set of costs (dl_cost_need) of which a run must use one for the change to matter (0:
 * always). */
static const struct {
    const char *cost, *what;
    enum { OF_ANY, OF_GPUS, OF_CORES, OF_SPLIT } of;
    unsigned need;
} changes[] = {
    {NULL, "compute (forward, backward, update)", OF_ANY, 0},
    {"dispatch", "launching of GPU work by the host", OF_ANY, 0},
    {"external", "waits for what the trace does not show", OF_GPUS, 0},
    {"input", "making and copying batches", OF_ANY, 0},
    {"copy", "copies over links and memory", OF_ANY, 0},
    {"contention", "sharing of links and memory among GPUs", OF_GPUS, 0},
    {"average", "averaging", OF_ANY, DL_NEED_AVERAGE},
    {"update", "the server's updates", OF_ANY, DL_NEED_UPDATE},
    {"overlap", "compute being slower during collectives", OF_GPUS, DL_NEED_OVERLAP},
    {"sharing", "cores slowing one another down", OF_CORES, 0},
    {"memory", "the limit of memory bandwidth", OF_CORES, 0},
    {"lock", "taking the lock", OF_ANY, DL_NEED_LOCK},
    {"barrier", "barriers", OF_ANY, DL_NEED_BARRIER},
    {"wakeup", "waking up blocked workers", OF_CORES, 0},
    {"noise", "variation of steps", OF_ANY, 0},
    {"slow", "slow workers", OF_ANY, 0},
    {"activations", "activations between stages", OF_SPLIT, 0},
    {"micro_batches", "fixed costs of each micro-batch", OF_SPLIT, 0},
    {"imbalance", "imbalance of the stages", OF_SPLIT, 0},
    {"bubble", "the pipeline's bubble", OF_SPLIT, 0},
};
#define CHANGES DL_LENGTH(changes)
_Static_assert(CHANGES <= DL_GAINS_MAX, "more changes than gains have room for");

/* A row that is run with other costs. */
typedef struct trial {
    const dl_study *study;
    const dl_row *row;
    size_t number; /* index of the row */
    int64_t steps, replicates;
    int64_t events; /* events of the first run */
} trial;

/* Median throughput of the variant's point with the time of the costs in `set` multiplied by
 * `factor` and that of compute by `compute`; NaN if a run fails. */
static double run_changed(trial *t, dl_variant *variant, const dl_point *point, unsigned set,
                          double factor, double compute)
{
    const dl_scenario *original = &t->study->variants[t->row->variant].scenario;
    double values[GAIN_REPLICATES];
    dl_error ignored = {0};
    dl_without_apply(original->without | (factor == 0 ? set : 0), &variant->scenario,
                     &variant->costs);
    if (factor > 0) dl_without_lessen(set, factor, &variant->scenario, &variant->costs);
    variant->scenario.seed = original->seed;
    if (variant->scenario.steps > t->steps) variant->scenario.steps = t->steps;
    for (int64_t r = 0; r < t->replicates; r++) {
        dl_run_result result = {0};
        const dl_run_config config = {.scenario = &variant->scenario,
                                      .costs = &variant->costs,
                                      .point = point,
                                      .replicate = (uint32_t)r,
                                      .compute_log = log(compute)};
        if (dl_run(&config, &result, &ignored) != DL_OK) return (double)NAN;
        values[r] = result.throughput_per_s;
        if (t->events == 0) t->events = result.events;
        dl_run_result_free(&result);
    }
    dl_sort_doubles(values, (size_t)t->replicates);
    return dl_quantile(values, (size_t)t->replicates, 0.5);
}

/* Reads the study again from its text and returns run_changed for the row's point. */
static double throughput(trial *t, unsigned set, double factor, double compute)
{
    DL_SCOPED(dl_study) study = {0};
    dl_error ignored = {0};
    double per_s = (double)NAN;
    size_t point = 0;
    const char *text = t->study->text;
    if (dl_study_read_text(&study, t->study->path, text, strlen(text), &ignored) != DL_OK) {
        return per_s;
    }
    if (dl_study_read_costs(&study, &ignored) == DL_OK && t->number < study.point_count) {
        dl_study_variant(&study, t->number, &point);
        dl_variant *variant = &study.variants[t->row->variant];
        per_s = run_changed(t, variant, &variant->scenario.points[point], set, factor, compute);
    }
    return per_s;
}

/* Whether the cost can affect the point's runs. */
static bool is_needed(const trial *t, size_t change)
{
    const dl_variant *variant = &t->study->variants[t->row->variant];
    const unsigned need = changes[change].need;
    const char *cost = changes[change].cost != NULL ? changes[change].cost : "";
    if (strcmp(cost, "noise") == 0)
        return dl_run_varies(&variant->scenario, &variant->costs) ||
               dl_costs_work_differs(&variant->costs);
    if (strcmp(cost, "external") == 0) return variant->costs.dispatch.external_ns.known;
    return need == 0 ||
           (dl_run_needs(&variant->scenario, &variant->costs, &t->row->point) & need) != 0;
}

static bool matters(double ratio)
{
    return fabs(ratio - 1) >= GAIN_FRAC; /* false for NaN */
}

/* Fills gains[CHANGES] in descending order; returns their number. */
static size_t simulate_gains(trial *t, double now, dl_gain *gains)
{
    const dl_variant *variant = &t->study->variants[t->row->variant];
    const int machine = variant->scenario.gpu != NULL ? OF_GPUS : OF_CORES;
    size_t count = 0;
    for (size_t c = 0; c < CHANGES; c++) {
        const int of = changes[c].of;
        const bool applies =
            of == OF_SPLIT ? dl_point_is_split(&t->row->point) : of == OF_ANY || of == machine;
        unsigned set = 0;
        dl_error ignored = {0};
        dl_gain g = {changes[c].cost != NULL ? changes[c].cost : "compute", changes[c].what,
                     (double)NAN, (double)NAN};
        if (!applies || !is_needed(t, c)) continue;
        if (changes[c].cost == NULL) {
            g.half = throughput(t, 0, 1, 0.5) / now;
        } else if (dl_without_parse(changes[c].cost, &set, &ignored) == DL_OK) {
            g.none = throughput(t, set, 0, 1) / now;
            const bool graded = dl_without_graded(set) != 0;
            /* If removing a cost does not matter, halving it does not matter either. */
            if (graded && matters(g.none)) g.half = throughput(t, set, 0.5, 1) / now;
        }
        if (!matters(g.half) && !matters(g.none)) continue;
        size_t at = count++;
        for (; at > 0 && dl_gain_worth(&gains[at - 1]) < dl_gain_worth(&g); at--)
            gains[at] = gains[at - 1];
        gains[at] = g;
    }
    return count;
}

/* Number of steps of a run, reduced if the full run would take too long; *events: estimated events
 * of the full run. */
static int64_t steps_of_gains(const dl_variant *variant, const dl_row *row, double *events)
{
    const dl_scenario *scenario = &variant->scenario;
    const bool repeats = dl_run_varies(scenario, &variant->costs);
    const int64_t steps = scenario->steps;
    const double rounds = GAIN_ROUNDS * fmax(1, row->point.option[DL_SYNC_INTERVAL]);
    *events = (double)row->mean.events / (double)(repeats ? scenario->replicates : 1);
    if (*events <= GAIN_EVENTS_ONE) return steps;
    const double fewer = fmax(rounds, floor((double)steps * GAIN_EVENTS_ONE / *events));
    return fewer < (double)steps ? (int64_t)fewer : steps;
}

void dl_gains_simulate(dl_gains *gains, const dl_study *study, const dl_row *row, size_t number)
{
    const dl_variant *variant = &study->variants[row->variant];
    double events = 0;
    if (variant->scenario.generators != NULL) {
        dl_generators_gains(gains, variant, row);
        return;
    }
    trial t = {
        .study = study,
        .row = row,
        .number = number,
        .steps = steps_of_gains(variant, row, &events),
        .replicates = 1,
    };
    *gains = (dl_gains){0};
    if (events > GAIN_EVENTS_MAX) {
        gains->why_not = "a run of that point takes long";
        return;
    }
    gains->per_s = throughput(&t, 0, 1, 1);
    if (isnan(gains->per_s)) {
        gains->why_not = "the scenario cannot be read again";
        return;
    }
    const int64_t wanted = variant->scenario.replicates, affordable = GAIN_EVENTS / (t.events + 1);
    if (dl_run_varies(&variant->scenario, &variant->costs) && wanted > 1 && affordable > 1) {
        t.replicates = wanted < affordable ? wanted : affordable;
        if (t.replicates > GAIN_REPLICATES) t.replicates = GAIN_REPLICATES;
        gains->per_s = throughput(&t, 0, 1, 1);
    }
    gains->count = simulate_gains(&t, gains->per_s, gains->all);
}

/* --- finding ---------------------------------------------------------------------------------- */

/* Sets x->best to the row with the highest throughput in the series of x->row, and x->enough to the
 * row of that series with the fewest workers that reach ENOUGH_FRAC of it. */
static void find_best(dl_explanation *x)
{
    const dl_row *rows = x->sweep->rows;
    const char *label = x->labels[x->row];
    x->best = x->row;
    for (size_t i = 0; i < x->sweep->row_count; i++) {
        if (is_in(x, i, label) &&
            rows[i].mean.throughput_per_s > rows[x->best].mean.throughput_per_s) {
            x->best = i;
        }
    }
    x->enough = x->best;
    for (size_t i = 0; i < x->sweep->row_count; i++) {
        if (is_in(x, i, label) &&
            rows[i].mean.throughput_per_s >= ENOUGH_FRAC * rows[x->best].mean.throughput_per_s &&
            rows[i].point.workers < rows[x->enough].point.workers) {
            x->enough = i;
        }
    }
}

void dl_explanation_find(dl_explanation *x, const dl_study *study, const dl_sweep *sweep,
                         const dl_measured *measured, size_t row)
{
    const size_t count = sweep->row_count;
    *x = (dl_explanation){.study = study,
                          .sweep = sweep,
                          .labels = dl_calloc(count, sizeof *x->labels, "labels of rows"),
                          .row = count,
                          .before = count,
                          .drawn = count};
    for (size_t i = 0; i < count; i++)
        if (sweep->rows[i].error == NULL) x->labels[i] = label_of(study, &sweep->rows[i]);
    x->first = find_first(x);
    if (x->first == count || (row < count && x->labels[row] == NULL)) return;
    const char *label = row < count ? x->labels[row] : choose(x, measured);
    if (row < count) {
        x->row = row;
    } else {
        const bool generates = sweep->rows[x->first].mean.rollout != NULL;
        x->row = generates ? x->first : most_up_to(x, label, DL_WORKERS_MAX);
    }
    label = x->labels[x->row];
    const int workers = sweep->rows[x->row].point.workers;
    x->before = most_up_to(x, label, workers - 1);
    x->drawn = workers > DRAWN_WORKERS ? most_up_to(x, label, DRAWN_WORKERS) : x->row;
    if (x->drawn == count) x->drawn = x->row;
    find_best(x);
    dl_gains_simulate(&x->gains, study, &sweep->rows[x->row], x->row);
}

void dl_explanation_free(dl_explanation *x)
{
    for (size_t i = 0; x->labels != NULL && i < x->sweep->row_count; i++)
        free(x->labels[i]);
    free(x->labels);
    *x = (dl_explanation){0};
}

/* --- renderings ------------------------------------------------------------------------------- */

const char *dl_gain_text(char *text, size_t bytes, double ratio)
{
    snprintf(text, bytes,
             ratio >= 100  ? "over 100 times"
             : ratio >= 10 ? "%.0f times"
                           : "%.2f times",
             ratio);
    return isnan(ratio) ? "–" : text;
}

/* Formats a ratio as "1.97 times". */
static dl_datum gain_of(const void *row, const dl_column *column)
{
    char text[32];
    const double ratio = *(const double *)(const void *)((const char *)row + column->offset);
    if (isnan(ratio)) return dl_datum_none();
    return dl_datum_owned_text(dl_strdup(dl_gain_text(text, sizeof text, ratio)));
}

static const dl_column gain_columns[] = {
    {DL_WORD("what takes time"), DL_MEMBER(dl_gain, what)},
    {.heading = "in half the time", .offset = offsetof(dl_gain, half), .get = gain_of},
    {.heading = "in no time", .offset = offsetof(dl_gain, none), .get = gain_of},
};

static const char no_gain[] =
    "Making any single part faster changes that throughput by less than 1 %.";

static void put_gains_html(FILE *out, const dl_gains *gains)
{
    char times[32];
    if (gains->why_not != NULL) {
        dl_html(out, "<p>What would help most was not simulated: %s.</p>\n", gains->why_not);
        return;
    }
    if (gains->count == 0) {
        dl_html(out, "<p>%s</p>\n", no_gain);
        return;
    }
    const dl_gain *first = &gains->all[0];
    if (dl_gain_worth(first) > 1) {
        dl_html(
            out,
            "<p><strong>What would help most: %s in %s time, for %s the throughput.</strong></p>\n",
            first->what, isnan(first->half) ? "no" : "half the",
            dl_gain_text(times, sizeof times, dl_gain_ratio(first)));
    }
    const dl_column_table table = DL_COLUMN_TABLE(gain_columns, gains->all, gains->count);
    dl_html_table(
        out,
        "Throughput of that point after one change, over its throughput without it; each simulated",
        &table);
}

void dl_explanation_html(FILE *out, const dl_explanation *x)
{
    char *text = sentences(x), *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest))
        dl_html(out, "<p>%s</p>\n", line);
    free(text);
    if (x->row != x->sweep->row_count) put_gains_html(out, &x->gains);
}

/* Writes "Halving A gives 1.47 times the throughput; halving B gives 1.13 times." */
static void put_gains_sentence(FILE *out, const dl_gains *gains)
{
    DL_AUTOFREE char *text = NULL;
    char times[32];
    size_t named = 0;
    for (size_t i = 0; i < gains->count && named < GAINS_SHOWN; i++) {
        const dl_gain *gain = &gains->all[i];
        if (!(dl_gain_worth(gain) > 1)) break;
        dl_extend(&text, "%s %s %s %s%s",
                  named == 0          ? isnan(gain->half) ? "Without" : "Halving"
                  : isnan(gain->half) ? "; without"
                                      : "; halving",
                  gain->what, isnan(gain->half) ? "it would be" : "gives",
                  dl_gain_text(times, sizeof times, dl_gain_ratio(gain)),
                  named == 0 ? " the throughput" : "");
        named++;
    }
    if (named == 0) return;
    dl_extend(&text, ".");
    dl_wrap_print(out, 0, "%s", text);
}

static void put_gains_text(FILE *out, const dl_gains *gains)
{
    if (gains->why_not != NULL) {
        fprintf(out, "The gains from halving costs were not simulated: %s.\n", gains->why_not);
        return;
    }
    if (gains->count == 0) {
        fprintf(out, "%s\n", no_gain);
        return;
    }
    put_gains_sentence(out, gains);
    const size_t shown = gains->count < GAINS_SHOWN ? gains->count : GAINS_SHOWN;
    const dl_column_table table = DL_COLUMN_TABLE(gain_columns, gains->all, shown);
    fprintf(out, "Throughput after one change, over the %s samples/s without it:\n",
            DL_RATE_TEXT(gains->per_s));
    dl_columns_print(out, &table, (size_t)dl_wrap_columns(out));
}

/* Writes "An epoch takes 3.2 min and costs 0.38 USD." */
static void put_epoch(FILE *out, const dl_explanation *x)
{
    const dl_row *row = &x->sweep->rows[x->row];
    const dl_scenario *scenario = &x->study->variants[row->variant].scenario;
    if (scenario->samples_per_epoch == 0) return;
    const double epoch_s = (double)scenario->samples_per_epoch / row->mean.throughput_per_s;
    const double usd_per_hour = dl_scenario_usd_per_hour(scenario, &row->point);
    fprintf(out, "An epoch takes %s", DL_NS_TEXT(dl_s_to_ns(epoch_s)));
    if (!isnan(usd_per_hour)) fprintf(out, " and costs %.3g USD", usd_per_hour * epoch_s / 3600);
    fputs(".\n", out);
}

void dl_explanation_print(FILE *out, const dl_explanation *x)
{
    char *text = sentences(x), *rest = NULL;
    fputs("What takes the time:\n", out);
    for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest))
        dl_wrap_print(out, 0, "%s", line);
    free(text);
    if (x->row == x->sweep->row_count) return;
    put_epoch(out, x);
    put_gains_text(out, &x->gains);
}
