#include "sim/report/solve.h"
#include "sim/report/row_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/names.h"
#include "common/options.h"
#include "common/units.h"
#include "sim/report/report.h"
#include "sim/root.h"
#include "sim/scenario/keys.h"
#include "sim/scenario/without.h"

#define FIRST_FACTOR 4.0 /* growth of the factor in the bracket search: 4, 16, 64, ... */
#define SHOWN_DIGITS 4   /* digits of a printed value (dl_amount_text) */
#define STAIR_KEY 1e-3   /* values nearer than this, relatively, may be the two sides of a jump */
#define STAIR_FRAC 1e-3  /* smallest difference of the column at a jump, relative to the target */
#define ROUNDS_MAX 200   /* maximum number of rounds of Brent's method */
#define ROUNDS_USUAL 8.0 /* usual number of rounds */
#define TRIALS_USUAL 4.0 /* usual number of trials before Brent's method */
#define TRIALS_OF_A_TARGET (TRIALS_USUAL + ROUNDS_USUAL)
#define SLOW_MAX 4     /* slow trials after which whole numbers are bisected */
#define NEAR_MAX 20000 /* maximum number of values skipped around one value */

/* A tried value of the key. */
typedef struct trial {
    double key,
        found; /* found: value of the column; NaN: the point does not run at this key, or the column
                * has no value */
    dl_cell_table table;
} trial;

/* The search for one point's values. */
typedef struct search {
    dl_solution *solution;
    const dl_solve_config *config;
    const dl_study *study;
    const char *text;        /* the scenario without [measured] file, in a copy of which text_with
                              * sets the key */
    size_t row, point_count; /* index of the point; number of the scenario's points */
    double first;            /* value to try first */
    double trials_left;      /* trials that the current target is expected to need */
    size_t searches_left;    /* number of searches after the current one */
    dl_solved about;         /* members common to all solutions of the point */
    trial *trials;           /* [count] trials that ran, in ascending order of key */
    size_t count;
    double fails_below, fails_above; /* nearest tried keys that did not run; infinite: none */
    trial failed;                    /* the last trial that did not run */
    dl_status status;
    dl_error *err;
} search;

static bool is_whole(const dl_key *key)
{
    return key->type == DL_KEY_INT || key->type == DL_KEY_INT64;
}

static bool is_number(const dl_key *key)
{
    return is_whole(key) || key->type == DL_KEY_REAL || key->type == DL_KEY_QUANTITY;
}

/* --- targets ---------------------------------------------------------------------------------- */

static bool is_solved(const dl_key *key)
{
    return is_number(key) && key->sweep != 0;
}

void dl_solve_complete(FILE *out, const char *typed)
{
    for (size_t i = 0; i < dl_scenario_keys.count; i++) {
        const dl_key *key = &dl_scenario_keys.rows[i];
        DL_AUTOFREE char *name = dl_format("%s.%s", key->section, key->name);
        if (is_solved(key)) dl_complete_word(out, typed, 0, name);
    }
}

static dl_status find_key(const dl_key **found, const char *text, dl_error *err)
{
    dl_error why = {0};
    if (dl_keys_named(&dl_scenario_keys, text, found, &why) != DL_OK)
        return dl_error_set(err, DL_ERR_USAGE, "--solve %s: %s", text, why.text);
    const bool is_seed =
        strcmp((*found)->section, "scenario") == 0 && strcmp((*found)->name, "seed") == 0;
    if (is_seed)
        return dl_error_set(err, DL_ERR_USAGE,
                            "--solve %s: results do not rise or fall with it; --replicates N "
                            "runs several",
                            text);
    if (is_solved(*found)) return DL_OK;
    const bool is_count =
        strcmp((*found)->section, "machine") == 0 && strcmp((*found)->name, "workers") == 0;
    return dl_error_set(err, DL_ERR_USAGE,
                        "--solve %s: only keys that are one number and can be swept%s", text,
                        is_count ? "; workers may be 'all'. Run a list, as --workers 8,16,32, "
                                   "whose rows have the column"
                                 : "");
}

/* Parses "COLUMN=VALUE,VALUE,..."; the caller frees *column. */
static dl_status read_targets(const char *text, char **column, double *values, size_t *count,
                              dl_error *err)
{
    const char *equals = strchr(text, '=');
    if (equals == NULL || equals == text || equals[1] == '\0') {
        return dl_error_set(err, DL_ERR_USAGE,
                            "--target %s: expected COLUMN=VALUE, as in throughput_per_s=1000",
                            text);
    }
    char *list = dl_strdup(equals + 1), *rest = NULL;
    dl_status status = DL_OK;
    for (char *item = strtok_r(list, ",", &rest); item != NULL && status == DL_OK;
         item = strtok_r(NULL, ",", &rest)) {
        if (*count == DL_SOLVE_TARGETS_MAX) {
            status = dl_error_set(err, DL_ERR_USAGE, "--target: more than %d values",
                                  DL_SOLVE_TARGETS_MAX);
        } else if (dl_parse_double(item, -1e300, 1e300, &values[(*count)++], NULL) != DL_OK) {
            status =
                dl_error_set(err, DL_ERR_USAGE, "--target %s: '%s' is not a number", text, item);
        }
    }
    free(list);
    if (status == DL_OK) *column = dl_strndup(text, (size_t)(equals - text));
    return status;
}

/* --- one value of the key -------------------------------------------------------------------- */

static double column_of(const dl_cell_table *table, const char *column)
{
    const dl_cell *cell = dl_cell_table_find(table, column);
    return cell != NULL ? cell->number : (double)NAN;
}

static dl_status check_column(const dl_cell_table *table, const char *column, dl_error *err)
{
    const char *const *names = (const char *const *)table->names;
    if (dl_names_find(column, names, table->columns) >= 0) return DL_OK;
    char hint[2048];
    dl_names_hint(hint, sizeof hint, column, names, table->columns);
    return dl_error_set(err, DL_ERR_NAME,
                        "--target: the results of this point have no column '%s'%s", column, hint);
}

/* Returns the scenario's text with this value of the key; the caller frees it. */
static char *text_with(const search *s, double key)
{
    char value[DL_DOUBLE_TEXT_BYTES], *text = dl_strdup(s->text);
    const dl_key *of = s->solution->key;
    dl_ini_text_set(&text, of->section, of->name, dl_format_double(value, key));
    return text;
}

/* Reads the study with this value of the key, and its costs. */
static dl_status read_study(const search *s, dl_study *study, double key, dl_error *err)
{
    DL_AUTOFREE char *text = text_with(s, key);
    dl_status status = dl_study_read_text(study, s->study->path, text, strlen(text), err);
    if (status == DL_OK) status = dl_study_read_costs(study, err);
    for (size_t v = 0; v < study->variant_count && status == DL_OK; v++) {
        dl_variant *variant = &study->variants[v];
        dl_without_apply(s->config->without, &variant->scenario, &variant->costs);
        if (s->config->seed >= 0) variant->scenario.seed = s->config->seed;
    }
    return status;
}

/* Removes "KEY VALUE" from "KEY VALUE, lag 8", as the key is the unknown. */
static void drop_key(char *options, const char *key)
{
    const size_t bytes = strlen(key);
    for (char *item = options; item != NULL; item = strstr(item, ", ")) {
        if (*item == ',') item += 2;
        if (strncmp(item, key, bytes) != 0 || item[bytes] != ' ') continue;
        const char *rest = strstr(item, ", ");
        if (rest != NULL) {
            memmove(item, rest + 2, strlen(rest + 2) + 1);
        } else {
            *(item > options ? item - 2 : item) = '\0';
        }
        return;
    }
}

/* Records the point's properties at the first trial. */
static void note_point(search *s, const dl_study *study, const dl_row *row)
{
    char options[DL_REPORT_OPTIONS_BYTES];
    if (s->about.options != NULL) return;
    dl_report_options(options, sizeof options, study, row);
    drop_key(options, s->solution->key->name);
    const bool generates = study->variants[row->variant].scenario.generators != NULL;
    s->about = (dl_solved){.row = s->row,
                           .options = dl_strdup(options),
                           .workers = row->point.workers,
                           .sync = generates ? NULL : dl_point_mode(&row->point),
                           .batch = row->point.batch};
}

/* Simulates the row alone. */
static dl_status simulate(search *s, dl_study *study, trial *tried, dl_error *err)
{
    size_t point = 0;
    dl_variant *variant = (dl_variant *)dl_study_variant(study, s->row, &point);
    dl_point *points = variant->scenario.points;
    const size_t point_count = variant->scenario.point_count;
    dl_study one = *study;
    one.variants = variant;
    one.variant_count = one.point_count = variant->scenario.point_count = 1;
    variant->scenario.points = &points[point];
    DL_SCOPED(dl_sweep) sweep = {0};
    dl_measured *measured = NULL;
    s->trials_left = fmax(0, s->trials_left - 1);
    const dl_sweep_config config = {.threads = s->config->threads,
                                    .pace = s->config->pace,
                                    .repeats = s->trials_left +
                                               (double)s->searches_left * TRIALS_OF_A_TARGET,
                                    .no_influences = true};
    dl_status status = dl_measured_read(&measured, &one, err);
    if (status == DL_OK) status = dl_sweep_run(&sweep, &one, &config, err);
    if (status == DL_OK) {
        dl_report_results_table(&tried->table, &one, &sweep, measured, NULL);
        note_point(s, &one, &sweep.rows[0]);
        status = check_column(&tried->table, s->solution->column, err);
        tried->found = column_of(&tried->table, s->solution->column);
    }
    dl_measured_free(measured, 1);
    variant->scenario.points = points;
    variant->scenario.point_count = point_count;
    return status;
}

/* Returns the trial at this value of the key and runs it if it is new. If the run fails, sets
 * s->status and returns NULL. */
static const trial *try(search *s, double key)
{
    size_t i = 0;
    while (i < s->count && s->trials[i].key < key)
        i++;
    if (i < s->count && s->trials[i].key == key) return &s->trials[i];
    DL_SCOPED(dl_study) study = {0};
    trial tried = {.key = key, .found = (double)NAN};
    dl_error error = {0};
    dl_status status = read_study(s, &study, key, &error);
    if (status == DL_OK && study.point_count != s->point_count)
        status = dl_error_set(&error, DL_ERR_DATA,
                              "--solve %s: the scenario has %zu points, with %g it has %zu",
                              s->solution->key->name, s->point_count, key, study.point_count);
    if (status == DL_OK) status = simulate(s, &study, &tried, &error);
    s->solution->runs++;
    if (s->config->progress != NULL) {
        const double left = s->trials_left + (double)s->searches_left * TRIALS_OF_A_TARGET;
        s->config->progress(s->config->user, s->solution->runs,
                            s->solution->runs + (int64_t)ceil(left));
    }
    if (status != DL_OK) {
        dl_cell_table_free(&tried.table);
        s->status = status;
        if (s->err != NULL) *s->err = error;
        return NULL;
    }
    if (isnan(tried.found)) {
        const bool above = s->count == 0 || i > 0;
        *(above ? &s->fails_above : &s->fails_below) = key;
        dl_cell_table_free(&s->failed.table);
        s->failed = tried;
        return &s->failed;
    }
    DL_APPEND(s->trials, s->count, "values tried") = tried;
    memmove(&s->trials[i + 1], &s->trials[i], (s->count - 1 - i) * sizeof *s->trials);
    s->trials[i] = tried;
    return &s->trials[i];
}

/* --- the search ------------------------------------------------------------------------------ */

/* Returns the first value to try: the scenario's value (for [machine] nodes, the machine's),
 * else the key's default, else the key's lowest whole number or the geometric mean of the
 * range's ends. */
static double first_value(const search *s)
{
    const dl_key *key = s->solution->key;
    DL_AUTOFREE char *own = dl_ini_text_value(s->study->text, key->section, key->name);
    const char *text = own != NULL ? own : key->fallback;
    double value = (double)NAN;
    if (text != NULL) {
        char *end = strpbrk(own != NULL ? own : "", ",|");
        if (end != NULL) *end = '\0';
        if (dl_amount_parse(text, key->dimension, &value, NULL) != DL_OK) value = (double)NAN;
    }
    const dl_gpu_options *gpu = s->study->variants[0].scenario.gpu;
    if (gpu != NULL && strcmp(key->section, "machine") == 0 && strcmp(key->name, "nodes") == 0)
        value = gpu->machine.nodes;
    if (!(value > 0))
        value = is_whole(key) ? key->low : sqrt(fmax(key->low, 1e-9) * fmin(key->high, 1e9));
    return fmin(key->high, fmax(key->low, value));
}

static double rounded(const dl_key *key, double value)
{
    return fmin(key->high, fmax(key->low, is_whole(key) ? round(value) : value));
}

/* Whether the scenario can have this value of the key; records an impossible value in `skipped`. */
static bool is_allowed(search *s, double key)
{
    dl_solution *solution = s->solution;
    for (size_t i = 0; i < solution->skipped_count; i++)
        if (solution->skipped[i] == key) return false;
    dl_study study = {0};
    dl_error why = {0};
    DL_AUTOFREE char *text = text_with(s, key);
    const dl_status status = dl_study_read_text(&study, s->study->path, text, strlen(text), &why);
    if (status == DL_OK) dl_study_free(&study);
    if (status != DL_ERR_RANGE) return true; /* the trial reports other errors */
    if (solution->skipped_count == 0) solution->skipped_why = dl_strdup(why.text);
    DL_APPEND(solution->skipped, solution->skipped_count, "values skipped") = key;
    return false;
}

/* Returns the allowed whole number between low and high that is nearest to `key`; NaN if there is
 * none or, with an error in s->status, none among the NEAR_MAX nearest. Returns `key` for keys that
 * are not whole numbers. */
static double nearest(search *s, double key, double low, double high)
{
    if (!is_whole(s->solution->key)) return key;
    double below = key, above = key + 1;
    for (int passed = 0; below > low || above < high; passed++) {
        if (passed == NEAR_MAX) {
            s->status = dl_error_set(
                s->err, DL_ERR_RANGE, "--solve %s: neither %.0f nor %d values next to it: %s",
                s->solution->key->name, key, NEAR_MAX, s->solution->skipped_why);
            break;
        }
        const bool goes_down = above >= high || (below > low && key - below <= above - key);
        const double next = goes_down ? below-- : above++;
        if (next > low && next < high && is_allowed(s, next)) return next;
    }
    return (double)NAN;
}

/* Finds neighbouring trials on both sides of the target; *low is the index of the lower one. */
static bool is_bracketed(const search *s, double target, size_t *low)
{
    for (size_t i = 0; i + 1 < s->count; i++) {
        if ((s->trials[i].found - target) * (s->trials[i + 1].found - target) > 0) continue;
        *low = i;
        return true;
    }
    return false;
}

/* Returns the end of the key's runnable range nearest to the target; the last failed trial if none
 * ran. */
static const trial *nearest_end(const search *s, double target)
{
    if (s->count == 0) return &s->failed;
    const trial *low = &s->trials[0], *high = &s->trials[s->count - 1];
    return fabs(low->found - target) < fabs(high->found - target) ? low : high;
}

/* Bisects between a key value that runs and one that fails until the target is bracketed. Returns
 * false if it reaches the last value that runs without bracketing the target. */
static bool approach(search *s, double target, double runs, double fails, size_t *low)
{
    const bool whole = is_whole(s->solution->key);
    while (s->status == DL_OK && !is_bracketed(s, target, low)) {
        const double middle =
            whole ? nearest(s, floor((runs + fails) / 2), fmin(runs, fails), fmax(runs, fails))
                  : sqrt(runs * fails);
        if (whole ? isnan(middle) : fabs(fails / runs - 1) < DL_SOLVE_TOLERANCE) return false;
        const trial *t = try(s, middle);
        if (t == NULL) return false;
        *(isnan(t->found) ? &fails : &runs) = t->key;
    }
    return s->status == DL_OK;
}

/* Extends the search upwards or downwards by growing factors until the target is bracketed. Returns
 * false at the end of the key's range or of the values that run. */
static bool go(search *s, double target, bool up, size_t *low)
{
    const dl_key *key = s->solution->key;
    const double limit = up ? key->high : fmax(key->low, is_whole(key) ? 0 : 1e-12);
    for (double factor = FIRST_FACTOR; s->status == DL_OK; factor *= FIRST_FACTOR) {
        if (is_bracketed(s, target, low)) return true;
        const double end = s->trials[up ? s->count - 1 : 0].key;
        double next = rounded(key, up ? fmax(end, is_whole(key) ? 1 : 0) * factor : end / factor);
        if (up ? next > limit : next < limit) next = limit;
        if (up && next >= s->fails_above) next = s->fails_above;
        if (!up && next <= s->fails_below) next = s->fails_below;
        if (next == s->fails_above || next == s->fails_below)
            return approach(s, target, end, next, low);
        if (next == end) return false;
        const double near = nearest(s, next, up ? end : next - 1, up ? next + 1 : end);
        const trial *t = isnan(near) ? NULL : try(s, near);
        if (s->status != DL_OK) return false;
        if (t == NULL || isnan(t->found)) return approach(s, target, end, next, low);
    }
    return false;
}

/* Brackets the target: tries two values, then searches in the direction in which the column
 * approaches the target, or in both directions if that is unknown. */
static bool bracket(search *s, double target, size_t *low)
{
    const dl_key *key = s->solution->key;
    if (s->count == 0) {
        double first = s->first;
        const trial *t = try(s, first);
        while (t != NULL && isnan(t->found) && rounded(key, first / FIRST_FACTOR) < first) {
            const double wanted = rounded(key, first / FIRST_FACTOR);
            const double less = nearest(s, wanted, wanted - 1, first);
            if (isnan(less)) return false;
            first = less;
            t = try(s, first);
        }
        if (t == NULL || isnan(t->found)) return false;
        const double wanted = rounded(key, fmax(first, 1e-12) * FIRST_FACTOR);
        const double more = nearest(s, wanted, first, wanted + 1);
        if (s->status != DL_OK || (!isnan(more) && try(s, more) == NULL)) return false;
    }
    if (is_bracketed(s, target, low)) return true;
    if (s->count == 1) return go(s, target, true, low) || go(s, target, false, low);
    const trial *a = &s->trials[0], *b = &s->trials[s->count - 1];
    const bool rises = b->found > a->found, is_flat = b->found == a->found;
    const bool up = is_flat || rises == (target > b->found);
    if (go(s, target, up, low)) return true;
    return is_flat && s->status == DL_OK && go(s, target, false, low);
}

typedef struct equation {
    search *s;
    double target;
} equation;

static double difference(double log_key, void *user)
{
    const equation *e = user;
    /* The bracket's ends have been tried at exactly these values. */
    for (size_t i = 0; i < e->s->count; i++) {
        if (log(e->s->trials[i].key) == log_key) return e->s->trials[i].found - e->target;
    }
    const trial *t = e->s->status == DL_OK ? try(e->s, exp(log_key)) : NULL;
    return t != NULL ? t->found - e->target : (double)NAN;
}

/* Whether the column jumps over the target between two neighbouring trials. */
static bool is_stair(const search *s, double target, size_t low)
{
    const trial *a = &s->trials[low], *b = a + 1;
    return b->key / a->key - 1 < STAIR_KEY && fabs(b->found - a->found) > STAIR_FRAC * fabs(target);
}

/* Returns the trial beyond a jump at which the column reaches the target. Its key is rounded away
 * from the jump to the printed digits, so that the printed value also reaches the target. */
static const trial *beyond_stair(search *s, size_t low)
{
    const bool up = s->trials[low + 1].found > s->trials[low].found;
    const double key = s->trials[up ? low + 1 : low].key;
    const double digit = pow(10, floor(log10(key)) - (SHOWN_DIGITS - 1));
    return try(s, digit * (up ? ceil(key / digit) : floor(key / digit)));
}

/* Narrows the bracket by Brent's method between two trials with keys > 0. */
static const trial *close_in(search *s, double target, size_t low)
{
    equation e = {s, target};
    s->trials_left = ROUNDS_USUAL;
    const double root = dl_find_root(difference, &e, log(s->trials[low].key),
                                     log(s->trials[low + 1].key), DL_SOLVE_TOLERANCE, ROUNDS_MAX);
    if (s->status != DL_OK) return NULL;
    if (is_bracketed(s, target, &low) && is_stair(s, target, low)) return beyond_stair(s, low);
    for (size_t i = 0; i < s->count; i++) {
        if (log(s->trials[i].key) == root) return &s->trials[i];
    }
    return try(s, exp(root));
}

/* Key at which the hyperbola through three trials reaches the target, from the cross-ratio of four
 * points. Rates and shares of the time are hyperbolas in interval and batch. NaN: nowhere. */
static double by_hyperbola(const trial *a, const trial *b, const trial *c, double target)
{
    const double ratio = (target - a->found) * (b->found - c->found) * (b->key - a->key) /
                         ((target - c->found) * (b->found - a->found) * (b->key - c->key));
    return (a->key - ratio * c->key) / (1 - ratio);
}

/* Estimates the key that reaches the target between two neighbouring trials: by a hyperbola through
 * them and the trial next to them that is nearer to the target, else on a line over the logarithm
 * of the key. */
static double interpolated(const search *s, double target, double below, double above)
{
    size_t low = 0;
    while (s->trials[low].key != below)
        low++;
    const trial *a = &s->trials[low], *b = a + 1, *next = low > 0 ? a - 1 : NULL;
    if (low + 2 < s->count &&
        (next == NULL || fabs(b[1].found - target) < fabs(next->found - target)))
        next = b + 1;
    const double key = next != NULL ? by_hyperbola(a, b, next, target) : (double)NAN;
    if (key > below && key < above) return key;
    const double part = (target - a->found) / (b->found - a->found);
    return (below + 1) * pow((above + 1) / (below + 1), part) - 1;
}

/* Narrows the bracket until no possible whole number is left within it, and returns the end at
 * which the column is not below the target. Interpolates twice; if that leaves more than half of
 * the bracket, it tries the neighbour of the end that moved last, then the middle. Where the column
 * jumps it halves the bracket. */
static const trial *narrow(search *s, double target, size_t low)
{
    double below = s->trials[low].key, above = s->trials[low + 1].key;
    /* Sign of found - target at the upper end. */
    const double sign = s->trials[low].found <= target ? 1 : -1;
    int slow = 0, slow_in_all = 0; /* numbers of trials that left more than half of the bracket:
                                    * consecutive, and in total */
    bool from_above = false;
    while (above - below > 1) {
        const double width = above - below;
        double wanted = slow_in_all > SLOW_MAX || slow > 2 ? (below + above) / 2
                        : slow < 2                         ? interpolated(s, target, below, above)
                        : from_above                       ? above - 1
                                                           : below + 1;
        if (isnan(wanted)) wanted = (below + above) / 2;
        const double key =
            nearest(s, fmin(above - 1, fmax(below + 1, round(wanted))), below, above);
        if (isnan(key)) break;
        s->trials_left = fmin(ROUNDS_USUAL, 1 + log2(width));
        const trial *t = try(s, key);
        if (t == NULL) return NULL;
        from_above = sign * (t->found - target) >= 0;
        *(from_above ? &above : &below) = key;
        slow = above - below > width / 2 ? slow + 1 : 0;
        slow_in_all += slow > 0;
    }
    if (s->status != DL_OK) return NULL;
    const trial *a = try(s, below), *b = try(s, above);
    if (a->found == target) return a;
    if (b->found == target) return b;
    return a->found > b->found ? a : b;
}

static void copy_table(dl_cell_table *to, const dl_cell_table *from)
{
    for (size_t i = 0; i < from->comment_count; i++)
        dl_cell_table_add_comment(to, from->comments[i]);
    for (size_t c = 0; c < from->columns; c++)
        dl_cell_table_add_name(to, from->names[c]);
    for (size_t c = 0; c < from->cell_count; c++)
        dl_cell_table_add_cell(to, from->cells[c].kind, from->cells[c].text, from->cells[c].number);
}

static void add_solved(search *s, double target, const trial *t, bool reached)
{
    dl_solution *solution = s->solution;
    dl_solved *solved = &DL_APPEND(solution->all, solution->count, "solutions");
    *solved = s->about;
    solved->options = dl_strdup(s->about.options);
    solved->target = target;
    solved->value = reached ? t->key : (double)NAN;
    solved->at_limit = reached ? (double)NAN : t->key;
    solved->is_last =
        !reached && t != &s->failed && isfinite(t == s->trials ? s->fails_below : s->fails_above);
    solved->found = t->found;
    solved->workers = (int)column_of(&t->table, "workers");
    solved->batch = (int64_t)column_of(&t->table, "batch");
    solved->per_s = column_of(&t->table, "throughput_per_s");
    copy_table(&solved->table, &t->table);
    solution->unreached += !reached;
}

static dl_status solve_row(search *s, const double *targets, size_t count)
{
    for (size_t i = 0; i < count && s->status == DL_OK; i++) {
        size_t low = 0;
        const trial *t = NULL;
        s->trials_left = TRIALS_OF_A_TARGET;
        s->searches_left--;
        const bool found = bracket(s, targets[i], &low);
        if (s->status != DL_OK) break;
        if (found) {
            t = is_whole(s->solution->key) ? narrow(s, targets[i], low)
                                           : close_in(s, targets[i], low);
        } else {
            t = nearest_end(s, targets[i]);
        }
        if (t != NULL) add_solved(s, targets[i], t, found);
    }
    for (size_t i = 0; i < s->count; i++)
        dl_cell_table_free(&s->trials[i].table);
    free(s->trials);
    dl_cell_table_free(&s->failed.table);
    free(s->about.options);
    return s->status;
}

dl_status dl_solve(dl_solution *solution, const dl_study *study, const dl_solve_config *config,
                   dl_error *err)
{
    double targets[DL_SOLVE_TARGETS_MAX] = {0};
    size_t count = 0;
    DL_SCOPED(dl_study) plain = {0};
    dl_status status = find_key(&solution->key, config->key, err);
    if (status == DL_OK) {
        status = read_targets(config->targets, &solution->column, targets, &count, err);
    }
    if (status != DL_OK) return status;
    DL_AUTOFREE char *text = dl_strdup(study->text);
    dl_ini_text_remove(&text, "measured", "file");
    search whole = {.solution = solution,
                    .config = config,
                    .study = study,
                    .text = text,
                    .err = err,
                    .fails_below = (double)-INFINITY,
                    .fails_above = (double)INFINITY};
    const dl_key *key = solution->key;
    const double first = rounded(key, first_value(&whole));
    whole.first = nearest(&whole, first, key->low - 1, key->high + 1);
    status = whole.status;
    if (isnan(whole.first)) whole.first = first;
    if (status == DL_OK) status = read_study(&whole, &plain, whole.first, err);
    for (size_t row = 0; row < plain.point_count && status == DL_OK; row++) {
        search s = whole;
        s.row = row;
        s.point_count = plain.point_count;
        s.searches_left = (plain.point_count - row) * count;
        status = solve_row(&s, targets, count);
    }
    return status;
}

void dl_solution_free(dl_solution *solution)
{
    for (size_t i = 0; i < solution->count; i++) {
        free(solution->all[i].options);
        dl_cell_table_free(&solution->all[i].table);
    }
    free(solution->all);
    free(solution->column);
    free(solution->skipped);
    free(solution->skipped_why);
    *solution = (dl_solution){0};
}
