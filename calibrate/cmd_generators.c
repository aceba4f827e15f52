/* dlcal generators: fits the curve of a generator replica, and a trainer's seconds, to a table of
 * parts of steps of reinforcement learning. */
#include "calibrate/commands.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "calibrate/fit.h"
#include "common/alloc.h"
#include "common/csv.h"
#include "common/options.h"
#include "common/output.h"
#include "common/units.h"
#include "sim/costs/costs.h"

typedef struct settings {
    const char *output;
} settings;

/* A part of the table: time = fixed + slope x / per. */
typedef struct line {
    const char *x, *per, *y; /* names of columns; per: NULL: no divisor */
    bool is_rate;            /* y is x / time; otherwise it is the time */
    double *terms, *values;  /* [2 count] 1 and x / per, [count] times */
    size_t count;
    dl_fit_line fit;
} line;

static dl_status cell(const dl_csv *csv, size_t row, const char *name, double *value, dl_error *err)
{
    const int column = name != NULL ? dl_csv_column(csv, name) : -1;
    *value = name == NULL ? 1 : (double)NAN;
    if (column < 0) return DL_OK;
    dl_status status = dl_csv_number(csv, row, (size_t)column, value, err);
    if (status != DL_OK || isnan(*value) || (*value > 0 && *value < 1e15)) return status;
    return dl_error_set_at(err, DL_ERR_RANGE, csv->path, csv->lines[row],
                           "%s: expected a number above 0, not '%s'", name,
                           dl_csv_cell(csv, row, (size_t)column));
}

/* Reads the rows that have values in all columns of the part. */
static dl_status read_part(line *part, const dl_csv *csv, dl_error *err)
{
    part->terms = dl_calloc(2 * csv->rows + 1, sizeof *part->terms, "rows");
    part->values = dl_calloc(csv->rows + 1, sizeof *part->values, "rows");
    for (size_t row = 0; row < csv->rows; row++) {
        double x, per, y;
        dl_status status;
        if ((status = cell(csv, row, part->x, &x, err)) ||
            (status = cell(csv, row, part->per, &per, err)) ||
            (status = cell(csv, row, part->y, &y, err)))
            return status;
        if (isnan(x) || isnan(per) || isnan(y)) continue;
        part->terms[2 * part->count] = 1;
        part->terms[2 * part->count + 1] = x / per;
        part->values[part->count++] = part->is_rate ? x / y : y;
    }
    return DL_OK;
}

/* Fits the line by least squares of relative residuals. Returns DL_ERR_DATA if all rows have the
 * same x, as they do not determine the fixed part. */
static dl_status fit_part(line *part, const char *path, dl_error *err)
{
    bool differs = false;
    for (size_t i = 1; i < part->count; i++)
        differs |= part->terms[2 * i + 1] != part->terms[1];
    if (!differs) {
        return dl_error_set_at(err, DL_ERR_DATA, path, 0,
                               "at least two values of %s%s%s are needed to separate the fixed "
                               "part from the part per token",
                               part->x, part->per != NULL ? " / " : "",
                               part->per != NULL ? part->per : "");
    }
    DL_AUTOFREE double *none = dl_calloc(part->count, sizeof *none, "errors");
    const dl_fit_problem problem = {.n = part->count,
                                    .p = 2,
                                    .terms = part->terms,
                                    .y = part->values,
                                    .error = none,
                                    .scale = part->values};
    return dl_fit_solve(&problem, &part->fit, err);
}

static dl_value value_of(const line *part, int term)
{
    return (dl_value){.known = true,
                      .value = 1e9 * part->fit.coefficient[term],
                      .error = 1e9 * part->fit.error[term],
                      .count = (int64_t)part->count,
                      .origin = DL_ORIGIN_FITTED};
}

static dl_status refuse(const char *path, dl_error *err)
{
    return dl_error_set_at(
        err, DL_ERR_DATA, path, 0,
        "a whole step does not tell generation from training. Of the generator: columns requests "
        "and tokens_per_s of a replica (vLLM's log line 'Avg generation throughput: ... tokens/s, "
        "Running: ... reqs'); of the trainer: tokens, gpus and update_s (verl's "
        "timing_s/update_actor, NeMo-RL's policy_training), at two sizes each. dlsim divides a "
        "single on-policy step, with an interval: [generators] on_policy_s");
}

static void print_part(const char *what, const line *part, const char *per)
{
    printf("%s: %s + %s %s (%zu rows, which deviate by %.1f %%)\n", what,
           DL_NS_TEXT(1e9 * part->fit.coefficient[0]), DL_NS_TEXT(1e9 * part->fit.coefficient[1]),
           per, part->count, 100 * part->fit.tau);
}

static dl_status run(const dl_text_list *paths, void *user, dl_error *err)
{
    const settings *set = user;
    const char *path = paths->items[0];
    line generator = {.x = "requests", .y = "tokens_per_s", .is_rate = true},
         trainer = {.x = "tokens", .per = "gpus", .y = "update_s"};
    DL_SCOPED(dl_csv) csv = {0};
    dl_costs costs = {.parameter_bytes = -1, .state_bytes = -1};
    const dl_file_role output = {"--output", set->output};
    dl_status status = dl_outputs_check_paths(&output, 1, "the table", paths->items, 1, err);
    if (status == DL_OK) status = dl_csv_read(&csv, path, err);
    if (status == DL_OK) status = read_part(&generator, &csv, err);
    if (status == DL_OK) status = read_part(&trainer, &csv, err);
    if (status == DL_OK && generator.count + trainer.count == 0) status = refuse(path, err);
    if (status == DL_OK && generator.count > 0) status = fit_part(&generator, path, err);
    if (status == DL_OK && trainer.count > 0) status = fit_part(&trainer, path, err);
    if (status == DL_OK && generator.count > 0) {
        costs.generator.token_ns = value_of(&generator, 0);
        costs.generator.request_token_ns = value_of(&generator, 1);
    }
    if (status == DL_OK && trainer.count > 0) {
        costs.trainer.fixed_ns = value_of(&trainer, 0);
        costs.trainer.token_gpu_ns = value_of(&trainer, 1);
    }
    if (status == DL_OK) {
        DL_AUTOFREE char *comment =
            dl_format("Fitted by dlcal %s generators to %s.", DL_VERSION, path);
        status = dl_costs_write(&costs, set->output, comment, err);
    }
    status = dl_outputs_end(status, err);
    if (status == DL_OK) {
        if (generator.count > 0)
            print_part("a token of each request", &generator, "for each request in flight");
        if (trainer.count > 0) print_part("an update", &trainer, "for each token of a GPU");
        printf("costs written to %s\n", set->output);
    }
    free(generator.terms);
    free(generator.values);
    free(trainer.terms);
    free(trainer.values);
    return status;
}

int dl_calibrate_generators(int argc, char **argv)
{
    settings set = {.output = "costs.ini"};
    const dl_option options[] = {
        DL_OPT_TEXT("output", 'o', &set.output, "FILE", "Cost file to write."),
    };
    const dl_command command = {
        .program = argv[0],
        .positional = "TABLE",
        .summary =
            "Fit the costs of a scenario with [generators] to a table (CSV) of measured parts of "
            "steps. Columns requests and tokens_per_s: requests in flight on a replica, and its "
            "tokens per second; tokens, gpus and update_s: tokens of an update, GPUs of the "
            "trainer, and seconds. A row may have either group or both.",
        .options = options,
        .option_count = DL_LENGTH(options),
        .positional_min = 1,
        .positional_max = 1};
    return dl_command_main(&command, argc, argv, run, &set);
}
