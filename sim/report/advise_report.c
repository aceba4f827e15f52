/* Output of the advice: for a terminal, and as a CSV table. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/columns.h"
#include "common/csv.h"
#include "common/options.h"
#include "common/output.h"
#include "common/wrap.h"
#include "sim/report/advise.h"
#include "sim/report/row_text.h"

#define GAINS_SHOWN 2

static const char *const out_words[DL_OUTS] = {
    [DL_OUT_NOT] = "",
    [DL_OUT_REFUSED] = "not possible",
    [DL_OUT_COSTS] = "costs missing",
    [DL_OUT_MEMORY] = "memory",
    [DL_OUT_RESERVE] = "reserve",
    [DL_OUT_STALENESS] = "staleness",
    [DL_OUT_BATCH] = "batch",
    [DL_OUT_INTERVAL] = "interval",
    [DL_OUT_EFFICIENCY] = "efficiency",
    [DL_OUT_DEADLINE] = "deadline",
    [DL_OUT_BUDGET] = "budget",
};

/* Reason why a point is left out, as a clause. */
static const char *const left_out_words[DL_OUTS] = {
    [DL_OUT_NOT] = "",
    [DL_OUT_REFUSED] = "as they cannot be simulated",
    [DL_OUT_COSTS] = "as costs are missing",
    [DL_OUT_MEMORY] = "as they do not fit into memory",
    [DL_OUT_RESERVE] = "as they fit only without the allocator's reserve",
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

/* Name of the score. */
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
    return advice->by_target ? "the throughput over its [target] factor" : "the throughput";
}

/* Writes "3 GPUs, batch 126, allreduce, overlap yes" to text[bytes]; returns text. */
static const char *advised_text(char *text, size_t bytes, const dl_advice *advice,
                                const dl_advised *a)
{
    const dl_point *point = &a->row.point;
    snprintf(text, bytes, "%d %s, batch %lld, %s%s%s", point->workers,
             workers_word(advice, point->workers), (long long)point->batch,
             point->mode != NULL ? dl_point_mode(point) : "", a->settings[0] != '\0' ? ", " : "",
             a->settings);
    return text;
}

/* --- the table ------------------------------------------------------------------------------- */

/* A simulated point; its numbers are empty if it did not run. */
typedef struct advice_row {
    const dl_advice *advice;
    const dl_advised *of;
    const char *out, *mode, *simulated, *why;
    char interval[48], marks[DL_MARKS_BYTES];
    int workers;
    double rank, batch, per_s, low_per_s, high_per_s, speedup, efficiency, step_s, staleness;
    double memory_frac, usd_per_hour, hours, usd, deadline_frac, ahead, draws, extrapolated;
} advice_row;

static dl_datum axis_of(const void *row, const dl_column *column)
{
    const advice_row *r = row;
    const dl_advice_axis *axis = &r->advice->axes[column->index];
    const size_t at = r->of->at[column->index];
    return dl_datum_text(at < axis->count ? axis->values[at] : "");
}

#define NUMBER(member_) DL_MEMBER(advice_row, member_)

static const dl_column first_columns[] = {
    {.name = "rank", .heading = "rank", NUMBER(rank)},
    {.name = "left_out_by", DL_MEMBER(advice_row, out)},
};

static const dl_column columns[] = {
    {.heading = "workers", NUMBER(workers)},
    {.name = "batch_of_all", .heading = "batch", NUMBER(batch)},
    {DL_WORD("sync"), DL_MEMBER(advice_row, mode)},
    {.name = "throughput_per_s", DL_RATE("samples/s"), NUMBER(per_s)},
    {.name = "throughput_low_per_s", NUMBER(low_per_s)},
    {.name = "throughput_high_per_s", NUMBER(high_per_s)},
    {.heading = "95 % interval", DL_MEMBER(advice_row, interval)},
    {.name = "speedup", DL_PLAIN("speedup", 2), NUMBER(speedup)},
    {.name = "efficiency", DL_PERCENT("eff. %", 0), NUMBER(efficiency)},
    {.name = "step_mean_s", NUMBER(step_s)},
    {.name = "staleness_mean", DL_PLAIN("staleness", 2), NUMBER(staleness)},
    {.name = "memory_frac", NUMBER(memory_frac)},
    {.name = "usd_per_hour", DL_PLAIN("USD/h", 2), NUMBER(usd_per_hour)},
    {.name = "hours", DL_PLAIN("hours", 2), NUMBER(hours)},
    {.name = "usd", DL_PLAIN("USD", 2), NUMBER(usd)},
    {.name = "deadline_frac", NUMBER(deadline_frac)},
    {.name = "advised_ahead", NUMBER(ahead)},
    {.name = "draws", NUMBER(draws)},
    {.name = "simulated", DL_MEMBER(advice_row, simulated)},
    {.name = "extrapolated", NUMBER(extrapolated)},
    {.name = "why", DL_MEMBER(advice_row, why)},
};

static void fill_row(advice_row *r, const dl_advice *advice, const dl_advised *a, size_t rank)
{
    const dl_row *row = &a->row;
    const double none = (double)NAN;
    const bool ran = row->rate_count > 0;
    *r = (advice_row){
        .advice = advice,
        .of = a,
        .rank = rank > 0 ? (double)rank : none,
        .out = out_words[a->out],
        .workers = row->point.workers,
        .mode = ran ? dl_point_mode(&row->point) : NULL,
        .batch = ran ? (double)row->point.batch : none,
        .per_s = row->mean.throughput_per_s,
        .low_per_s = ran ? row->low_per_s : none,
        .high_per_s = ran ? row->high_per_s : none,
        .speedup = ran ? row->speedup : none,
        .efficiency = ran ? row->efficiency : none,
        .step_s = ran ? row->mean.step_mean_s : none,
        .staleness = ran ? row->staleness_mean : none,
        .memory_frac = ran ? row->memory.needs_bytes / row->memory.has_bytes : none,
        .usd_per_hour = a->usd_per_hour,
        .hours = a->hours,
        .usd = a->usd,
        .deadline_frac = a->deadline_frac,
        .ahead = none,
        .draws = none,
        .simulated = !ran          ? ""
                     : a->is_final ? "final"
                                   : "search",
        .extrapolated = ran ? row->extrapolated : none,
        .why = a->why != NULL       ? a->why
               : row->error != NULL ? row->error
                                    : "",
    };
    if (!isnan(r->low_per_s))
        snprintf(r->interval, sizeof r->interval, "%s to %s", DL_RATE_TEXT(r->low_per_s),
                 DL_RATE_TEXT(r->high_per_s));
    if (ran) dl_report_marks(r->marks, row);
    if (!ran || !a->is_final || advice->best_count == 0 || rank == 1) return;
    const dl_advice_pair pair = dl_advice_compare(advice, &advice->points[advice->best[0]], a);
    r->ahead = (double)pair.wins;
    r->draws = (double)pair.draws;
}

/* Returns the best points by rank and, with `all`, the other points; release the rows with
 * free(). */
static advice_row *make_rows(const dl_advice *advice, bool all, size_t *count)
{
    advice_row *rows = dl_calloc(advice->point_count, sizeof *rows, "rows of an advice");
    DL_AUTOFREE bool *is_best = dl_calloc(advice->point_count, sizeof *is_best, "best points");
    *count = 0;
    for (size_t i = 0; i < advice->best_count; i++) {
        is_best[advice->best[i]] = true;
        fill_row(&rows[(*count)++], advice, &advice->points[advice->best[i]], i + 1);
    }
    for (size_t p = 0; p < advice->point_count && all; p++)
        if (!is_best[p]) fill_row(&rows[(*count)++], advice, &advice->points[p], 0);
    return rows;
}

/* Returns the columns, including those of the settings; release with free(). */
static dl_column *make_columns(const dl_advice *advice, size_t *count)
{
    const size_t first = DL_LENGTH(first_columns), axes = advice->axis_count;
    dl_column *all = dl_calloc(first + axes + DL_LENGTH(columns), sizeof *all, "columns");
    memcpy(all, first_columns, sizeof first_columns);
    for (size_t x = 0; x < axes; x++) {
        const dl_advice_axis *axis = &advice->axes[x];
        all[first + x] =
            (dl_column){.name = strcmp(axis->key, "file") == 0 ? axis->section : axis->key,
                        .index = (int)x,
                        .get = axis_of};
    }
    memcpy(all + first + axes, columns, sizeof columns);
    *count = first + axes + DL_LENGTH(columns);
    return all;
}

static const char *mark_of(const void *row)
{
    return ((const advice_row *)row)->marks;
}

/* Returns the row's settings, and the reason if its efficiency is above 100 %; the caller frees
 * it. */
static char *remark_of(const void *row)
{
    const dl_advised *a = ((const advice_row *)row)->of;
    char *above = dl_report_above(&a->row), *text = NULL;
    if (a->settings[0] != '\0') dl_join(&text, ", ", a->settings);
    if (above != NULL) dl_join(&text, "; ", above);
    free(above);
    return text;
}

/* --- for a terminal --------------------------------------------------------------------------- */

static void print_limits(FILE *out, const dl_advice *advice)
{
    const dl_advice_config *c = &advice->config;
    DL_AUTOFREE char *text = NULL;
    dl_extend(&text, "Limits: batch of all workers at most %lld, staleness at most ",
              (long long)c->max_batch);
    if (isfinite(c->max_staleness)) {
        dl_extend(&text, "%g", c->max_staleness);
    } else {
        dl_extend(&text, "that of the scenario's modes");
    }
    dl_extend(&text, ", at most %lld local step%s between averages", (long long)c->max_interval,
              c->max_interval == 1 ? "" : "s");
    if (c->min_efficiency > 0) dl_extend(&text, ", efficiency at least %g", c->min_efficiency);
    if (!isnan(c->deadline_h)) dl_extend(&text, ", done within %g h", c->deadline_h);
    if (!isnan(c->budget_usd)) dl_extend(&text, ", at most %g USD", c->budget_usd);
    dl_extend(&text,
              " (--max-batch, --max-staleness, --max-interval; default: those of the scenario).");
    dl_wrap_print(out, 2, "%s", text);
}

/* Returns the mode of a point that may not have run. */
static const char *mode_of(const dl_advice *advice, size_t number)
{
    const size_t *at = advice->points[number].at;
    for (size_t a = 0; a < advice->axis_count; a++) {
        const dl_advice_axis *axis = &advice->axes[a];
        if (strcmp(axis->key, "mode") == 0 && at[a] < axis->count) return axis->values[at[a]];
    }
    return "none";
}

/* Prints the reason why the first point that is out for this cause was not simulated. */
static void print_reason(FILE *out, const dl_advice *advice, dl_out cause, const char *words)
{
    size_t p = 0;
    DL_AUTOFREE char *line = NULL;
    while (p < advice->point_count && advice->points[p].out != cause)
        p++;
    if (p == advice->point_count) return;
    const dl_advised *point = &advice->points[p];
    dl_extend(&line, "Not simulated %s, as %s%s%s: %s.", words, mode_of(advice, p),
              point->settings[0] != '\0' ? ", " : "", point->settings, point->why);
    dl_wrap_print(out, 2, "%s", line);
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
    DL_AUTOFREE char *text = NULL;
    dl_extend(&text, "Simulated: %zu points%s.", tried,
              advice->stopped == DL_STOPPED_BY_POINTS
                  ? " (stopped there by --max-points: there may be a better one)"
              : advice->stopped == DL_STOPPED_BY_TIME
                  ? " (stopped there, as more would take too long: there may be a better one)"
                  : "");
    for (int o = 1; o < DL_OUTS; o++) {
        if (counts[o] == 0 || (o == DL_OUT_BATCH || o == DL_OUT_INTERVAL)) continue;
        dl_extend(&text, " Left out, %s: %zu", left_out_words[o], counts[o]);
        if (fastest[o] != NULL) {
            char point[512];
            dl_extend(&text, ", the fastest of them %s, %s samples/s",
                      advised_text(point, sizeof point, advice, fastest[o]),
                      DL_RATE_TEXT(fastest[o]->row.mean.throughput_per_s));
        }
        dl_extend(&text, ".");
    }
    dl_wrap_print(out, 2, "%s", text);
    if (advice->is_uncached)
        dl_wrap_print(out, 2,
                      "No point fits with the allocator's reserve (--fits): these fit only if its "
                      "cache is small.");
    print_reason(out, advice, DL_OUT_COSTS, "for lack of costs");
    print_reason(out, advice, DL_OUT_REFUSED, "for other reasons");
}

/* Hides the column in the terminal table. */
static void hide(dl_column *all, size_t count, const char *name)
{
    for (size_t c = 0; c < count; c++)
        if (all[c].name != NULL && strcmp(all[c].name, name) == 0) all[c].heading = NULL;
}

static void print_table(FILE *out, const dl_advice *advice)
{
    char used[DL_MARKS_BYTES] = "";
    dl_column_table table = {.row_bytes = sizeof(advice_row), .mark = mark_of, .remark = remark_of};
    DL_AUTOFREE advice_row *rows = make_rows(advice, false, &table.row_count);
    DL_AUTOFREE dl_column *all = make_columns(advice, &table.column_count);
    bool is_stale = false;
    for (size_t i = 0; i < table.row_count; i++)
        is_stale |= rows[i].staleness > 0;
    if (!is_stale) hide(all, table.column_count, "staleness_mean");
    if (!isnan(advice->config.samples)) hide(all, table.column_count, "usd_per_hour");
    table.rows = rows;
    table.list = all;
    dl_columns_print(out, &table, (size_t)dl_wrap_columns(out));
    for (size_t i = 0; i < table.row_count; i++)
        dl_report_marks_of(used, &rows[i].of->row);
    dl_report_marks_explain(out, used, "", "");
}

/* Writes "1.18 times the throughput (95 %: 1.10 to 1.27), ahead in 40 of 40 draws". */
static void put_pair(char **text, const dl_advice *advice, const dl_advice_pair *pair)
{
    dl_extend(text, "%.3g times %s", pair->ratio, score_word(advice));
    if (!isnan(pair->low)) dl_extend(text, " (95 %%: %.3g to %.3g)", pair->low, pair->high);
    if (!advice->varies) return;
    dl_extend(text, ", ahead in %zu of %zu draws", pair->wins, pair->draws);
    if (pair->ties > 0) dl_extend(text, ", equal in %zu", pair->ties);
    if (!pair->differ && pair->ties < pair->draws) dl_extend(text, ": cannot be told apart");
}

/* Writes the first of these in which b differs from a: workers and batch; mode and its settings;
 * other settings. */
static void put_difference(char **text, const dl_advice *advice, const dl_advised *a,
                           const dl_advised *b)
{
    const dl_point *x = &a->row.point, *y = &b->row.point;
    bool any = false;
    if (x->workers != y->workers) {
        dl_extend(text, "%d %s (batch %lld)", y->workers, workers_word(advice, y->workers),
                  (long long)y->batch);
        return;
    }
    if (x->mode != y->mode) {
        dl_extend(text, "%s%s%s", dl_point_mode(y), b->settings[0] != '\0' ? ", " : "",
                  b->settings);
        return;
    }
    for (size_t i = 0; i < advice->axis_count; i++) {
        const dl_advice_axis *axis = &advice->axes[i];
        if (a->at[i] == b->at[i] || b->at[i] >= axis->count) continue;
        const char *value = axis->values[b->at[i]];
        dl_extend(text, "%s%s%s%s%s", any ? ", " : "", value[0] == '\0' ? "default " : "",
                  axis->key, value[0] != '\0' ? " " : "", value);
        any = true;
    }
}

static void print_simpler(FILE *out, const dl_advice *advice, const dl_advised *best)
{
    bool any = false;
    for (size_t i = 0; i < advice->simpler_count; i++) {
        const dl_advised *simpler = &advice->points[advice->simpler[i]];
        DL_AUTOFREE char *line = NULL;
        if (simpler->row.rate_count == 0 || simpler->out == DL_OUT_REFUSED) continue;
        if (!any) fputs("The advised point against simpler ones:\n", out);
        any = true;
        const dl_advice_pair pair = dl_advice_compare(advice, best, simpler);
        put_difference(&line, advice, best, simpler);
        dl_extend(&line, ": ");
        put_pair(&line, advice, &pair);
        if (simpler->out != DL_OUT_NOT)
            dl_extend(&line, " (left out, %s)", left_out_words[simpler->out]);
        fputs("  ", out);
        dl_wrap_print(out, 4, "%s", line);
    }
}

/* Writes " Halving A gives 1.47 times the throughput. Halving B ..."; inside a sentence the first
 * word is in lower case. */
static void put_gains(char **text, const dl_gains *gains, bool inside)
{
    static const char *const words[2][2] = {{"Halving", "Without"}, {"halving", "without"}};
    char times[32];
    for (size_t i = 0; i < gains->count && i < GAINS_SHOWN; i++) {
        const dl_gain *gain = &gains->all[i];
        const bool off = isnan(gain->half);
        if (!(dl_gain_worth(gain) > 1)) return;
        dl_extend(text, " %s %s %s %s the throughput.", words[inside && i == 0][off], gain->what,
                  off ? "it would be" : "gives",
                  dl_gain_text(times, sizeof times, dl_gain_ratio(gain)));
    }
}

static void print_more(FILE *out, const dl_advice *advice, const dl_advised *best)
{
    if (advice->more >= advice->point_count) return;
    const dl_advised *more = &advice->points[advice->more];
    char text[512];
    DL_AUTOFREE char *line = NULL;
    dl_extend(&line, "Why not %d: ", more->row.point.workers);
    if (more->row.rate_count == 0) {
        dl_extend(&line, "%s.",
                  more->row.error != NULL ? more->row.error : left_out_words[more->out]);
    } else {
        const dl_advice_pair pair = dl_advice_compare(advice, best, more);
        dl_extend(&line, "%s: %s samples/s; the advised point has ",
                  advised_text(text, sizeof text, advice, more),
                  DL_RATE_TEXT(more->row.mean.throughput_per_s));
        put_pair(&line, advice, &pair);
        dl_extend(&line, ". ");
        dl_explain_growth(&line, &best->row, &more->row);
        if (advice->more_gains.count > 0 && dl_gain_worth(&advice->more_gains.all[0]) > 1) {
            dl_extend(&line, "There,");
        }
        put_gains(&line, &advice->more_gains, true);
    }
    for (char *end = strchr(line, '\n'); end != NULL; end = strchr(end, '\n'))
        *end = ' ';
    dl_wrap_print(out, 2, "%s", line);
}

static void print_binding(FILE *out, const dl_advice *advice, const dl_advised *best)
{
    const dl_gains *gains = &advice->gains;
    DL_AUTOFREE char *line = NULL;
    const double *part = best->row.mean.part_frac;
    const dl_part dominant = dl_dominant_part(&best->row);
    dl_extend(&line, "What binds: %.0f %% of a step is %s.", 100 * part[dominant],
              dl_part_names[dominant]);
    put_gains(&line, gains, false);
    dl_wrap_print(out, 2, "%s", line);
    for (size_t i = 0; i < advice->beyond_count; i++) {
        const dl_advised *point = &advice->points[advice->beyond[i]];
        const dl_advice_pair pair = dl_advice_compare(advice, point, best);
        char text[512];
        DL_AUTOFREE char *beyond = NULL;
        dl_extend(&beyond, "Beyond the limit of %s: %s has ", out_words[point->out],
                  advised_text(text, sizeof text, advice, point));
        put_pair(&beyond, advice, &pair);
        dl_extend(&beyond, ".");
        dl_wrap_print(out, 2, "%s", beyond);
    }
}

static void print_rivals(FILE *out, const dl_advice *advice, const dl_advised *best)
{
    size_t alike = 0;
    DL_AUTOFREE char *line = NULL;
    if (!advice->varies) {
        dl_wrap_print(out, 2,
                      "Nothing varies: the costs have no standard errors, and steps no noise. "
                      "So there are no intervals, and small differences mean nothing.");
        return;
    }
    for (size_t i = 1; i < advice->best_count; i++) {
        const dl_advised *other = &advice->points[advice->best[i]];
        const dl_advice_pair pair = dl_advice_compare(advice, best, other);
        if (pair.differ) continue;
        dl_extend(&line, "%s rank %zu, ", alike == 0 ? "" : ";", i + 1);
        if (pair.ties == pair.draws) {
            dl_extend(&line, "equal in all");
        } else {
            dl_extend(&line, "ahead in %zu of %zu", pair.wins, pair.draws);
            if (pair.ties > 0) dl_extend(&line, " and equal in %zu", pair.ties);
        }
        if (alike == 0) dl_extend(&line, " paired draws");
        alike++;
    }
    if (alike > 0) dl_wrap_print(out, 2, "Cannot be told apart from%s.", line);
}

/* Writes the points ahead of the advised one, and the reason why they are not advised. */
static void print_passed(FILE *out, const dl_advice *advice, const dl_advised *best)
{
    for (size_t i = 1; i < advice->best_count; i++) {
        const dl_advised *other = &advice->points[advice->best[i]];
        if (!(other->score > 1.0005 * best->score)) continue;
        const dl_advice_pair pair = dl_advice_compare(advice, other, best);
        DL_AUTOFREE char *line = NULL;
        dl_extend(&line, "Rank %zu has %.4g times %s, ", i + 1, pair.ratio, score_word(advice));
        if (best->score >= (1 - DL_ADVICE_SIMPLER_FRAC) * other->score) {
            dl_extend(&line, "which is less than %.0f %% more: the simpler one is advised.",
                      100 * DL_ADVICE_SIMPLER_FRAC);
        } else if (other->on_terms > 0) {
            dl_extend(
                &line,
                "but its copies to a server are assumed not to slow down concurrent computing. "
                "Under that assumption all-reduce would reach %.4g times the server's throughput: "
                "the two cannot be distinguished, and frameworks offer all-reduce.",
                other->on_terms);
        } else {
            dl_extend(
                &line,
                "but the draws range from %.3g to %.3g times: the two cannot be distinguished, "
                "so the usual one is advised.",
                pair.low, pair.high);
        }
        dl_wrap_print(out, 2, "%s", line);
    }
}

/* Writes the options with backslash continuations for a shell; an option and its value stay on one
 * line. */
static void print_options(FILE *out, const char *options)
{
    int column = fprintf(out, "As options:");
    for (const char *at = options + strspn(options, " "), *end; *at != '\0'; at = end) {
        end = strstr(at + 1, " --") != NULL ? strstr(at + 1, " --") + 1 : at + strlen(at);
        const int bytes = (int)(end - at) - (end[-1] == ' ');
        if (column + 1 + bytes > dl_wrap_columns(out) - (int)strlen(" \\"))
            column = fprintf(out, " \\\n   ") - (int)strlen(" \\\n");
        column += fprintf(out, " %.*s", bytes, at);
    }
    fputc('\n', out);
}

static void print_advised(FILE *out, const dl_advice *advice)
{
    const dl_advised *best = &advice->points[advice->best[0]];
    char text[512];
    DL_AUTOFREE char *line = NULL;
    dl_extend(&line, "Advised: %s.", advised_text(text, sizeof text, advice, best));
    if (!isnan(best->deadline_frac) && advice->varies) {
        dl_extend(&line, " The deadline is met in %.0f %% of the draws.",
                  100 * best->deadline_frac);
    }
    dl_wrap_print(out, 2, "%s", line);
    print_options(out, best->options[0] != '\0' ? best->options : "none, as it is");
}

void dl_advice_print(FILE *out, const dl_advice *advice)
{
    const dl_advice_config *c = &advice->config;
    dl_wrap_print(out, 2, "Advice: %s (%s)",
                  c->goal == DL_GOAL_COST       ? "most samples per dollar"
                  : c->goal == DL_GOAL_DEADLINE ? "the cheapest that meets the deadline"
                  : advice->by_target           ? "soonest at the target"
                                                : "highest throughput",
                  advice->name);
    if (advice->best_count > 0) print_advised(out, advice);
    print_limits(out, advice);
    print_searched(out, advice);
    if (advice->best_count == 0) {
        fputs("No point is within the limits.\n", out);
        return;
    }
    const dl_advised *best = &advice->points[advice->best[0]];
    fputc('\n', out);
    print_table(out, advice);
    fputc('\n', out);
    print_simpler(out, advice, best);
    print_more(out, advice, best);
    print_passed(out, advice, best);
    print_binding(out, advice, best);
    print_rivals(out, advice, best);
    const bool server_overlaps = dl_mode_serves_gradients(best->row.point.mode) &&
                                 strstr(best->settings, "overlap yes") != NULL;
    dl_wrap_print(
        out, 2,
        "Not known here: the effect of the batch%s and compressed gradients on accuracy and on the "
        "number of epochs. Points within the limits are assumed to learn as much per sample%s.%s",
        advice->by_target ? "" : ", staleness, local steps",
        advice->by_target ? ", over their [target] factor" : "",
        server_overlaps
            ? " Copies to a server are assumed not to slow down concurrent computing, as "
              "collectives do."
            : "");
}

/* --- as a file ------------------------------------------------------------------------------- */

#define ADVICE_SCHEMA 1

#define LIMITS                                                                    \
    "for=%s max_batch=%lld max_staleness=%g max_interval=%lld min_efficiency=%g " \
    "deadline_h=%g budget_usd=%g samples=%g"
#define LIMITS_OF(c)                                                                         \
    dl_goal_names[(c)->goal], (long long)(c)->max_batch, (c)->max_staleness,                 \
        (long long)(c)->max_interval, (c)->min_efficiency, (c)->deadline_h, (c)->budget_usd, \
        (c)->samples
#define SEARCH "points=%zu stopped=%s steps=%lld draws=%lld"
#define SEARCH_OF(advice)                                                                \
    (advice)->point_count, (advice)->stopped ? "yes" : "no", (long long)(advice)->steps, \
        (long long)(advice)->draws

/* Writes the names and the rows of all points. */
static void write_points(dl_csv_writer *writer, const dl_advice *advice)
{
    dl_column_table table = {.row_bytes = sizeof(advice_row)};
    DL_AUTOFREE advice_row *rows = make_rows(advice, true, &table.row_count);
    DL_AUTOFREE dl_column *all = make_columns(advice, &table.column_count);
    table.rows = rows;
    table.list = all;
    dl_columns_csv(writer, &table);
}

dl_status dl_advice_write(const char *path, const dl_advice *advice, dl_error *err)
{
    dl_output output = {0};
    const dl_status status = dl_output_open(&output, path, err);
    if (status != DL_OK) return status;
    dl_csv_writer writer = {.out = output.out};
    dl_csv_comment(&writer, "dlsim advice, schema %d", ADVICE_SCHEMA);
    dl_csv_comment(&writer, "version: dlsim %s", dl_version());
    dl_csv_comment(&writer, "scenario: %s", advice->name);
    dl_csv_comment(&writer, "limits: " LIMITS, LIMITS_OF(&advice->config));
    dl_csv_comment(&writer, "search: " SEARCH, SEARCH_OF(advice));
    write_points(&writer, advice);
    return dl_output_close(&output, err);
}

void dl_advice_json_write(FILE *out, const dl_advice *advice)
{
    char text[512];
    dl_json to = {.out = out};
    DL_SCOPED(dl_cell_table) table = {0};
    dl_csv_writer writer = {.table = &table};
    write_points(&writer, advice);
    dl_json_begin(&to, NULL, '{');
    dl_json_members(&to, "format=%s schema=%d", "dlsim advice", ADVICE_SCHEMA);
    dl_json_text_item(&to, "version", dl_version());
    dl_json_text_item(&to, "scenario", advice->name);
    dl_json_object(&to, "limits", LIMITS, LIMITS_OF(&advice->config));
    dl_json_object(&to, "search", SEARCH, SEARCH_OF(advice));
    if (advice->best_count > 0) {
        const dl_advised *best = &advice->points[advice->best[0]];
        dl_json_text_item(&to, "advised", advised_text(text, sizeof text, advice, best));
        dl_json_text_item(&to, "options", best->options + strspn(best->options, " "));
    }
    dl_cell_table_write_json(&to, &table);
    dl_json_end(&to, '}');
    fputc('\n', out);
}

dl_status dl_advice_json(const char *path, const dl_advice *advice, dl_error *err)
{
    dl_output output = {0};
    const dl_status status = dl_output_open(&output, path, err);
    if (status != DL_OK) return status;
    dl_advice_json_write(output.out, advice);
    return dl_output_close(&output, err);
}
