/* What an advice says: for a terminal, and as a table. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/csv.h"
#include "common/names.h"
#include "common/options.h"
#include "common/output.h"
#include "common/units.h"
#include "common/wrap.h"
#include "sim/report/advise.h"
#include "sim/report/report.h"
#include "sim/scenario/without.h"

#define GAINS_SHOWN 2

static const char *const out_words[DL_OUTS] = {
    [DL_OUT_NOT] = "",
    [DL_OUT_REFUSED] = "not possible",
    [DL_OUT_COSTS] = "costs missing",
    [DL_OUT_MEMORY] = "memory",
    [DL_OUT_STALENESS] = "staleness",
    [DL_OUT_BATCH] = "batch",
    [DL_OUT_INTERVAL] = "interval",
    [DL_OUT_EFFICIENCY] = "efficiency",
    [DL_OUT_DEADLINE] = "deadline",
    [DL_OUT_BUDGET] = "budget",
};

/* Why a point is left out, in a sentence. */
static const char *const left_out_words[DL_OUTS] = {
    [DL_OUT_NOT] = "",
    [DL_OUT_REFUSED] = "as they cannot be simulated",
    [DL_OUT_COSTS] = "as costs are missing",
    [DL_OUT_MEMORY] = "as they do not fit into memory",
    [DL_OUT_STALENESS] = "beyond the limit of staleness",
    [DL_OUT_BATCH] = "beyond the limit of the batch",
    [DL_OUT_INTERVAL] = "beyond the limit of local steps",
    [DL_OUT_EFFICIENCY] = "below the least efficiency",
    [DL_OUT_DEADLINE] = "beyond the deadline",
    [DL_OUT_BUDGET] = "beyond the budget",
};

static const char *workers_word(const dl_advice *advice, int workers)
{
    if (workers == 1) return advice->on_gpus ? "GPU" : "worker";
    return advice->on_gpus ? "GPUs" : "workers";
}

/* What the score counts. */
static const char *score_word(const dl_advice *advice)
{
    switch (advice->config.goal) {
    case DL_GOAL_COST: return "the samples per dollar";
    case DL_GOAL_DEADLINE:
        if (!isnan(advice->points[advice->best[0]].usd_per_hour)) return "the training per dollar";
        return advice->on_gpus ? "the training per GPU hour" : "the training per hour of a worker";
    case DL_GOAL_THROUGHPUT:
    case DL_GOALS: break;
    }
    return "the throughput";
}

/* "3 GPUs, batch 126, allreduce, overlap yes" in text[bytes]; returns text. */
static const char *advised_text(char *text, size_t bytes, const dl_advice *advice,
                                const dl_advised *a)
{
    const dl_point *point = &a->row.point;
    snprintf(text, bytes, "%d %s, batch %lld, %s%s%s", point->workers,
             workers_word(advice, point->workers), (long long)point->batch,
             point->mode != NULL ? point->mode->name : "", a->settings[0] != '\0' ? ", " : "",
             a->settings);
    return text;
}

/* --- for a terminal --------------------------------------------------------------------------- */

typedef struct line {
    char *text;
    size_t bytes;
    FILE *out;
} line;

static FILE *line_begin(line *l)
{
    *l = (line){0};
    l->out = dl_text_stream(&l->text, &l->bytes);
    return l->out;
}

static void line_end(line *l, FILE *out, int indent)
{
    fclose(l->out);
    dl_wrap(out, l->text, 0, indent, DL_EXPLAIN_COLUMNS);
    free(l->text);
}

static void put_number(FILE *out, int width, const char *format, double value)
{
    char text[32] = "-";
    if (!isnan(value)) snprintf(text, sizeof text, format, value);
    fprintf(out, " %*s", width, text);
}

static void print_limits(FILE *out, const dl_advice *advice)
{
    const dl_advice_config *c = &advice->config;
    line l;
    FILE *text = line_begin(&l);
    fprintf(text, "Limits: batch of all workers at most %lld, staleness at most ",
            (long long)c->max_batch);
    if (isfinite(c->max_staleness)) {
        fprintf(text, "%g", c->max_staleness);
    } else {
        fputs("what the scenario's modes have", text);
    }
    fprintf(text, ", at most %lld local step%s between averages", (long long)c->max_interval,
            c->max_interval == 1 ? "" : "s");
    if (c->min_efficiency > 0) fprintf(text, ", efficiency at least %g", c->min_efficiency);
    if (!isnan(c->deadline_h)) fprintf(text, ", done within %g h", c->deadline_h);
    if (!isnan(c->budget_usd)) fprintf(text, ", at most %g USD", c->budget_usd);
    fputs(" (--max-batch, --max-staleness, --max-interval; without them as the scenario).", text);
    line_end(&l, out, 2);
}

/* Of a point that may not have run. */
static const char *mode_of(const dl_advice *advice, size_t number)
{
    const size_t *at = advice->points[number].at;
    for (size_t a = 0; a < advice->axis_count; a++) {
        const dl_advice_axis *axis = &advice->axes[a];
        if (strcmp(axis->key, "mode") == 0 && at[a] < axis->count) return axis->values[at[a]];
    }
    return "none";
}

static void print_searched(FILE *out, const dl_advice *advice)
{
    size_t counts[DL_OUTS] = {0}, tried = 0;
    const dl_advised *fastest[DL_OUTS] = {NULL};
    for (size_t p = 0; p < advice->point_count; p++) {
        const dl_advised *point = &advice->points[p];
        const bool ran = !isnan(point->row.mean.throughput_per_s);
        tried += ran;
        if (!ran && point->out == DL_OUT_BATCH) continue;
        counts[point->out]++;
        const dl_advised **most = &fastest[point->out];
        if (ran && (*most == NULL ||
                    point->row.mean.throughput_per_s > (*most)->row.mean.throughput_per_s)) {
            *most = point;
        }
    }
    line l;
    FILE *text = line_begin(&l);
    fprintf(text, "Simulated: %zu points%s.", tried,
            advice->stopped == DL_STOPPED_BY_POINTS
                ? " (stopped there by --max-points: a better one may be left)"
            : advice->stopped == DL_STOPPED_BY_TIME
                ? " (stopped there, as more would take too long: a better one may be left)"
                : "");
    for (int o = 1; o < DL_OUTS; o++) {
        if (counts[o] == 0 || (o == DL_OUT_BATCH || o == DL_OUT_INTERVAL)) continue;
        fprintf(text, " Left out, %s: %zu", left_out_words[o], counts[o]);
        if (fastest[o] != NULL) {
            char point[512];
            fprintf(text, ", the fastest of them %s, %.0f samples/s",
                    advised_text(point, sizeof point, advice, fastest[o]),
                    fastest[o]->row.mean.throughput_per_s);
        }
        fputs(".", text);
    }
    line_end(&l, out, 2);
    for (size_t p = 0; p < advice->point_count; p++) {
        if (advice->points[p].out != DL_OUT_COSTS) continue;
        line_begin(&l);
        fprintf(l.out, "Not simulated for lack of costs, as %s%s%s: %s.", mode_of(advice, p),
                advice->points[p].settings[0] != '\0' ? ", " : "", advice->points[p].settings,
                advice->points[p].why);
        line_end(&l, out, 2);
        break;
    }
}

static void print_table(FILE *out, const dl_advice *advice)
{
    bool priced = false; /* some machine has a price */
    for (size_t i = 0; i < advice->best_count; i++)
        priced |= !isnan(advice->points[advice->best[i]].usd_per_hour);
    const bool length = !isnan(advice->config.samples);
    fprintf(out, "%4s %7s %7s %-10s %10s %21s %7s %6s %9s", "rank", "workers", "batch", "sync",
            "samples/s", "95 % interval", "speedup", "eff. %", "staleness");
    if (length) fprintf(out, " %9s", "hours");
    if (length && priced) fprintf(out, " %9s", "USD");
    if (!length && priced) fprintf(out, " %9s", "USD/h");
    char used[DL_MARKS_BYTES] = "";
    fputs("  settings\n", out);
    for (size_t i = 0; i < advice->best_count; i++) {
        const dl_advised *a = &advice->points[advice->best[i]];
        const dl_row *row = &a->row;
        char interval[48] = "-", marks[DL_MARKS_BYTES];
        if (!isnan(row->low_per_s))
            snprintf(interval, sizeof interval, "%.0f to %.0f", row->low_per_s, row->high_per_s);
        fprintf(out, "%4zu %7d %7lld %-10s %10.1f %21s", i + 1, row->point.workers,
                (long long)row->point.batch, row->point.mode->name, row->mean.throughput_per_s,
                interval);
        put_number(out, 7, "%.2f", row->speedup);
        put_number(out, 6, "%.0f", 100 * row->efficiency);
        put_number(out, 9, "%.2f", row->staleness_mean);
        if (length) put_number(out, 9, a->hours < 10 ? "%.3f" : "%.1f", a->hours);
        if (length && priced) put_number(out, 9, "%.2f", a->usd);
        if (!length && priced) put_number(out, 9, "%.2f", a->usd_per_hour);
        fprintf(out, "  %s%s%s", a->settings, dl_report_marks(marks, row)[0] != '\0' ? " " : "",
                marks);
        char *above = dl_report_above(row);
        if (above != NULL) fprintf(out, "  %s", above);
        free(above);
        fputc('\n', out);
        dl_report_marks_of(used, row);
    }
    dl_report_marks_explain(out, used, "", "");
}

/* "1.18 times the throughput (95 %: 1.10 to 1.27), faster in 40 of 40 draws". */
static void put_pair(FILE *out, const dl_advice *advice, const dl_advice_pair *pair)
{
    fprintf(out, "%.3g times %s", pair->ratio, score_word(advice));
    if (!isnan(pair->low)) fprintf(out, " (95 %%: %.3g to %.3g)", pair->low, pair->high);
    if (!advice->varies) return;
    fprintf(out, ", ahead in %zu of %zu draws", pair->wins, pair->draws);
    if (pair->ties > 0) fprintf(out, ", equal in %zu", pair->ties);
    if (!pair->differ && pair->ties < pair->draws) fputs(": cannot be told apart", out);
}

/* Where b differs from a: as b has it. */
static void put_difference(FILE *out, const dl_advice *advice, const dl_advised *a,
                           const dl_advised *b)
{
    const dl_point *x = &a->row.point, *y = &b->row.point;
    bool any = false;
    if (x->workers != y->workers) {
        fprintf(out, "%d %s (batch %lld)", y->workers, workers_word(advice, y->workers),
                (long long)y->batch);
        return;
    }
    if (x->mode != y->mode) {
        fprintf(out, "%s%s%s", y->mode->name, b->settings[0] != '\0' ? ", " : "", b->settings);
        return;
    }
    for (size_t i = 0; i < advice->axis_count; i++) {
        const dl_advice_axis *axis = &advice->axes[i];
        if (a->at[i] == b->at[i] || b->at[i] >= axis->count) continue;
        const char *value = axis->values[b->at[i]];
        fprintf(out, "%s%s%s%s%s", any ? ", " : "", value[0] == '\0' ? "default " : "", axis->key,
                value[0] != '\0' ? " " : "", value);
        any = true;
    }
}

static void print_simpler(FILE *out, const dl_advice *advice, const dl_advised *best)
{
    bool any = false;
    for (size_t i = 0; i < advice->simpler_count; i++) {
        const dl_advised *simpler = &advice->points[advice->simpler[i]];
        line l;
        if (simpler->row.rate_count == 0 || simpler->out == DL_OUT_REFUSED) continue;
        if (!any) fputs("The advised point against simpler ones:\n", out);
        any = true;
        const dl_advice_pair pair = dl_advice_compare(advice, best, simpler);
        line_begin(&l);
        put_difference(l.out, advice, best, simpler);
        fputs(": ", l.out);
        put_pair(l.out, advice, &pair);
        if (simpler->out != DL_OUT_NOT)
            fprintf(l.out, " (left out, %s)", left_out_words[simpler->out]);
        fputs("  ", out);
        line_end(&l, out, 4);
    }
}

/* " Halving A gives 1.47 times the throughput. Halving B ..."; inside a sentence the first is lower
 * case. */
static void put_gains(FILE *out, const dl_gains *gains, bool inside)
{
    static const char *const words[2][2] = {{"Halving", "Without"}, {"halving", "without"}};
    char times[32];
    for (size_t i = 0; i < gains->count && i < GAINS_SHOWN; i++) {
        const dl_gain *gain = &gains->all[i];
        const bool off = isnan(gain->half);
        if (!(dl_gain_worth(gain) > 1)) return;
        fprintf(out, " %s %s %s %s the throughput.", words[inside && i == 0][off], gain->what,
                off ? "it would be" : "gives",
                dl_gain_text(times, sizeof times, dl_gain_worth(gain)));
    }
}

static void print_more(FILE *out, const dl_advice *advice, const dl_advised *best)
{
    if (advice->more >= advice->point_count) return;
    const dl_advised *more = &advice->points[advice->more];
    char text[512];
    line l;
    line_begin(&l);
    fprintf(l.out, "Why not %d: ", more->row.point.workers);
    if (more->row.rate_count == 0) {
        fprintf(l.out, "%s.",
                more->row.error != NULL ? more->row.error : left_out_words[more->out]);
    } else {
        const dl_advice_pair pair = dl_advice_compare(advice, best, more);
        fprintf(l.out, "%s: %.0f samples/s; the advised point has ",
                advised_text(text, sizeof text, advice, more), more->row.mean.throughput_per_s);
        put_pair(l.out, advice, &pair);
        fputs(". ", l.out);
        dl_explain_growth(l.out, &best->row, &more->row);
        if (advice->more_gains.count > 0 && dl_gain_worth(&advice->more_gains.all[0]) > 1) {
            fputs("There,", l.out);
        }
        put_gains(l.out, &advice->more_gains, true);
    }
    fflush(l.out);
    for (char *end = strchr(l.text, '\n'); end != NULL; end = strchr(end, '\n'))
        *end = ' ';
    line_end(&l, out, 2);
}

static void print_binding(FILE *out, const dl_advice *advice, const dl_advised *best)
{
    const dl_gains *gains = &advice->gains;
    line l;
    line_begin(&l);
    const double *part = best->row.mean.part_frac;
    const dl_part dominant = dl_dominant_part(&best->row);
    fprintf(l.out, "What binds: %.0f %% of a step is %s.", 100 * part[dominant],
            dl_part_names[dominant]);
    put_gains(l.out, gains, false);
    line_end(&l, out, 2);
    for (size_t i = 0; i < advice->beyond_count; i++) {
        const dl_advised *point = &advice->points[advice->beyond[i]];
        const dl_advice_pair pair = dl_advice_compare(advice, point, best);
        char text[512];
        line_begin(&l);
        fprintf(l.out, "Beyond the limit of %s: %s has ", out_words[point->out],
                advised_text(text, sizeof text, advice, point));
        put_pair(l.out, advice, &pair);
        fputs(".", l.out);
        line_end(&l, out, 2);
    }
}

static void print_rivals(FILE *out, const dl_advice *advice, const dl_advised *best)
{
    size_t alike = 0;
    line l;
    if (!advice->varies) {
        dl_wrap(out,
                "Nothing varies: the costs have no standard errors, and steps no noise. "
                "So there are no intervals, and small differences mean nothing.",
                0, 2, DL_EXPLAIN_COLUMNS);
        return;
    }
    line_begin(&l);
    for (size_t i = 1; i < advice->best_count; i++) {
        const dl_advised *other = &advice->points[advice->best[i]];
        const dl_advice_pair pair = dl_advice_compare(advice, best, other);
        if (pair.differ) continue;
        fprintf(l.out, "%s rank %zu, ", alike == 0 ? "" : ";", i + 1);
        if (pair.ties == pair.draws) {
            fputs("equal in all", l.out);
        } else {
            fprintf(l.out, "ahead in %zu of %zu", pair.wins, pair.draws);
            if (pair.ties > 0) fprintf(l.out, " and equal in %zu", pair.ties);
        }
        if (alike == 0) fputs(" paired draws", l.out);
        alike++;
    }
    if (alike > 0) fputs(".", l.out);
    fclose(l.out);
    char *text = dl_format("Cannot be told apart from%s", l.text);
    if (alike > 0) dl_wrap(out, text, 0, 2, DL_EXPLAIN_COLUMNS);
    free(text);
    free(l.text);
}

/* Those that are better by less than what makes a choice less simple. */
static void print_passed(FILE *out, const dl_advice *advice, const dl_advised *best)
{
    for (size_t i = 1; i < advice->best_count; i++) {
        const dl_advised *other = &advice->points[advice->best[i]];
        if (!(other->score > 1.0005 * best->score)) continue;
        line l;
        line_begin(&l);
        const double ratio = other->score / best->score;
        fprintf(l.out, "Rank %zu has %.4g times %s, ", i + 1, ratio, score_word(advice));
        if (best->score < (1 - DL_ADVICE_SIMPLER_FRAC) * other->score) {
            fprintf(l.out,
                    "but its copies to a server%s are taken not to slow down the computing beside "
                    "them. Without that slowdown all-reduce would have %.4g times as well: the two "
                    "cannot be told apart, and frameworks offer all-reduce.",
                    strstr(other->settings, "where gpu") != NULL ? " and that GPU's updates" : "",
                    advice->unslowed);
        } else {
            fprintf(l.out, "which is less than %.0f %% more: the simpler one is advised.",
                    100 * DL_ADVICE_SIMPLER_FRAC);
        }
        line_end(&l, out, 2);
    }
}

void dl_advice_print(FILE *out, const dl_advice *advice)
{
    const dl_advice_config *c = &advice->config;
    line l;
    line_begin(&l);
    fprintf(l.out, "Advice: %s (%s)",
            c->goal == DL_GOAL_COST       ? "most samples per dollar"
            : c->goal == DL_GOAL_DEADLINE ? "the cheapest that meets the deadline"
                                          : "highest throughput",
            advice->name);
    line_end(&l, out, 2);
    print_limits(out, advice);
    print_searched(out, advice);
    if (advice->best_count == 0) {
        fputs("No point is within the limits.\n", out);
        return;
    }
    const dl_advised *best = &advice->points[advice->best[0]];
    char text[512];
    fputc('\n', out);
    print_table(out, advice);
    fputc('\n', out);
    line_begin(&l);
    fprintf(l.out, "Advised: %s.", advised_text(text, sizeof text, advice, best));
    if (!isnan(best->deadline_frac) && advice->varies) {
        fprintf(l.out, " The deadline is met in %.0f %% of the draws.", 100 * best->deadline_frac);
    }
    line_end(&l, out, 2);
    fprintf(out, "As options:%s\n", best->options[0] != '\0' ? best->options : " none, as it is");
    print_simpler(out, advice, best);
    print_more(out, advice, best);
    print_passed(out, advice, best);
    print_binding(out, advice, best);
    print_rivals(out, advice, best);
    const bool server_overlaps =
        best->row.point.mode == &dl_mode_ps && strstr(best->settings, "overlap yes") != NULL;
    line_begin(&l);
    fputs("Not known here: what a batch, staleness, local steps or compressed gradients do to "
          "accuracy "
          "and to the number of epochs. Points within the limits are taken to learn as much per "
          "sample.",
          l.out);
    if (server_overlaps) {
        fputs(" Copies to a server are taken not to slow down the computing beside them, as "
              "collectives do.",
              l.out);
    }
    line_end(&l, out, 2);
}

/* --- as a table ------------------------------------------------------------------------------- */

static size_t rank_of(const dl_advice *advice, size_t number)
{
    size_t rank = 0;
    while (rank < advice->best_count && advice->best[rank] != number)
        rank++;
    return rank < advice->best_count ? rank + 1 : 0;
}

static void write_head(dl_csv_writer *writer, const dl_advice *advice)
{
    const dl_advice_config *c = &advice->config;
    dl_csv_comment(writer, "dlsim advice, schema 1");
    dl_csv_comment(writer, "version: dlsim %s", dl_version());
    dl_csv_comment(writer, "scenario: %s", advice->name);
    dl_csv_comment(writer,
                   "limits: for=%s max_batch=%lld max_staleness=%g max_interval=%lld "
                   "min_efficiency=%g deadline_h=%g budget_usd=%g samples=%g",
                   dl_goal_names[c->goal], (long long)c->max_batch, c->max_staleness,
                   (long long)c->max_interval, c->min_efficiency, c->deadline_h, c->budget_usd,
                   c->samples);
    dl_csv_comment(writer, "search: points=%zu stopped=%s steps=%lld draws=%lld",
                   advice->point_count, advice->stopped ? "yes" : "no", (long long)advice->steps,
                   (long long)advice->draws);
}

static void write_point(dl_csv_writer *writer, const dl_advice *advice, size_t number)
{
    const dl_advised *a = &advice->points[number];
    const dl_row *row = &a->row;
    const size_t rank = rank_of(advice, number);
    const bool ran = row->rate_count > 0;
    dl_csv_double(writer, rank > 0 ? (double)rank : (double)NAN);
    dl_csv_text(writer, out_words[a->out]);
    for (size_t x = 0; x < advice->axis_count; x++) {
        const dl_advice_axis *axis = &advice->axes[x];
        dl_csv_text(writer, a->at[x] < axis->count ? axis->values[a->at[x]] : "");
    }
    const double numbers[] = {
        ran ? (double)row->point.batch : (double)NAN,
        row->mean.throughput_per_s,
        ran ? row->low_per_s : (double)NAN,
        ran ? row->high_per_s : (double)NAN,
        ran ? row->speedup : (double)NAN,
        ran ? row->efficiency : (double)NAN,
        ran ? row->mean.step_mean_s : (double)NAN,
        ran ? row->staleness_mean : (double)NAN,
        ran ? row->memory.needs_bytes / row->memory.has_bytes : (double)NAN,
        a->usd_per_hour,
        a->hours,
        a->usd,
        a->deadline_frac,
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        dl_csv_double(writer, numbers[i]);
    const bool paired = ran && a->is_final && advice->best_count > 0 && rank != 1;
    const dl_advice_pair pair = paired
                                    ? dl_advice_compare(advice, &advice->points[advice->best[0]], a)
                                    : (dl_advice_pair){0};
    dl_csv_double(writer, paired ? (double)pair.wins : (double)NAN);
    dl_csv_double(writer, paired ? (double)pair.draws : (double)NAN);
    dl_csv_text(writer, !ran ? "" : a->is_final ? "final" : "search");
    dl_csv_double(writer, ran ? row->extrapolated : (double)NAN);
    dl_csv_text(writer, a->why != NULL ? a->why : row->error != NULL ? row->error : "");
    dl_csv_end_row(writer);
}

dl_status dl_advice_write(const char *path, const dl_advice *advice, dl_error *err)
{
    static const char *const columns[] = {"batch_of_all",
                                          "throughput_per_s",
                                          "throughput_low_per_s",
                                          "throughput_high_per_s",
                                          "speedup",
                                          "efficiency",
                                          "step_mean_s",
                                          "staleness_mean",
                                          "memory_frac",
                                          "usd_per_hour",
                                          "hours",
                                          "usd",
                                          "deadline_frac",
                                          "advised_ahead",
                                          "draws",
                                          "simulated",
                                          "extrapolated",
                                          "why"};
    dl_output output = {0};
    const dl_status status = dl_output_open(&output, path, err);
    if (status != DL_OK) return status;
    dl_csv_writer writer = {.out = output.out};
    write_head(&writer, advice);
    dl_csv_text(&writer, "rank");
    dl_csv_text(&writer, "left_out_by");
    for (size_t x = 0; x < advice->axis_count; x++)
        dl_csv_text(&writer, strcmp(advice->axes[x].key, "file") == 0 ? advice->axes[x].section
                                                                      : advice->axes[x].key);
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        dl_csv_text(&writer, columns[i]);
    dl_csv_end_row(&writer);
    for (size_t i = 0; i < advice->best_count; i++)
        write_point(&writer, advice, advice->best[i]);
    for (size_t p = 0; p < advice->point_count; p++)
        if (rank_of(advice, p) == 0) write_point(&writer, advice, p);
    return dl_output_close(&output, err);
}
