#include "calibrate/commands.h"

#include <stdlib.h>
#include <string.h>

#include "calibrate/evaluate/evaluate.h"
#include "calibrate/table/table.h"
#include "common/alloc.h"
#include "common/cluster.h"
#include "common/options.h"
#include "common/output.h"
#include "common/progress.h"
#include "sim/scenario/command.h"

typedef struct settings {
    const char *scenario, *output, *json, *rows, *costs, *predict, *use;
    bool near;
    int64_t threads;
    int journal;
    dl_scenario_command command;
    char *name, *text; /* of the scenario with what the command line says */
    dl_cluster *cluster;
} settings;

typedef struct shown {
    dl_progress progress;
    const dl_table_fit *fit;
} shown;

/* Of a search, then of leaving rows out: each goes at a pace of its own. */
static void show(void *user, const char *what, int64_t done, int64_t count)
{
    shown *s = user;
    const dl_journal *journal = s->fit->journal;
    if (s->progress.what == NULL && journal != NULL && dl_journal_count(journal) > 0) {
        fprintf(stderr, "dlcal: goes on after %zu simulations from the journal\n",
                dl_journal_count(journal));
    }
    if (s->progress.what != what) {
        dl_progress_end(&s->progress);
        dl_progress_start(&s->progress, "dlcal", what);
    }
    dl_progress_show(&s->progress, done, count);
}

/* The search may take long, so that what the scenario names is found out before. `table` NULL: the
 * scenario's own, which is set, as text of its own. */
static dl_status check_inputs(settings *set, const char *given, char **table, dl_error *err)
{
    const dl_file_role outputs[] = {
        {"--output", set->output}, {"--json", set->json}, {"--rows", set->rows}};
    dl_scenario scenario = {0};
    dl_status status = dl_scenario_text(&set->command, set->scenario, &set->text, &set->name, err);
    if (status == DL_OK) status = dl_table_scenario_read(&scenario, set->name, set->text, err);
    if (status != DL_OK) return dl_scenario_command_error(set->scenario, err);
    const char *path = given != NULL ? given : scenario.measured_path;
    const dl_file_role inputs[] = {
        {"the table", path},
        {"the table of --predict", set->predict},
        {"the scenario", set->scenario},
        {"the scenario's cost file", scenario.costs_path},
        {"the scenario's machine file", scenario.gpu != NULL ? scenario.gpu->machine.path : NULL},
        {"the machine file of scale_compute", scenario.scale_path},
    };
    status = dl_outputs_check(outputs, sizeof outputs / sizeof *outputs, inputs,
                              sizeof inputs / sizeof *inputs, err);
    if (status == DL_OK && path == NULL) {
        status = dl_error_set(err, DL_ERR_USAGE,
                              "missing argument TABLE: the scenario has no [measured] file either");
    }
    if (status == DL_OK) *table = dl_strdup(path);
    dl_scenario_free(&scenario);
    return status;
}

/* Report, cost file and the rest, of a fit on rank 0. */
static dl_status write_all(const dl_table_fit *fit, const dl_table_fit_config *config,
                           const settings *set, dl_error *err)
{
    dl_table_report_print(fit, stdout);
    dl_status status = dl_table_fit_write(fit, set->output, err);
    if (status == DL_OK && set->json != NULL) {
        status = dl_table_report_json_write(fit, set->json, err);
    }
    if (status == DL_OK && set->rows != NULL) {
        status = dl_table_report_rows_write(fit, set->rows, err);
    }
    dl_table_evaluation evaluation = {0};
    if (status == DL_OK && set->predict != NULL) {
        status = dl_table_evaluate(&evaluation, fit, config, set->predict, err);
        if (status == DL_OK) dl_table_evaluation_print(&evaluation, stdout);
    }
    dl_table_evaluation_free(&evaluation);
    status = dl_outputs_end(status, err);
    if (status == DL_OK) printf("\ncosts written to %s\n", set->output);
    return status;
}

static dl_status fit_table(const dl_text_list *paths, void *user, dl_error *err)
{
    settings *set = user;
    const bool first = set->cluster->rank == 0;
    if (!first) set->output = set->json = set->rows = NULL; /* rank 0 writes them */
    if (set->scenario == NULL && !dl_scenario_command_given(&set->command)) {
        return dl_error_set(err, DL_ERR_USAGE,
                            "--scenario FILE is needed, or --costs and other options in its place");
    }
    dl_table_fit fit = {0};
    shown progress = {.fit = &fit};
    char *table = NULL;
    char *journal = NULL;
    dl_status status = check_inputs(set, paths->count > 0 ? paths->items[0] : NULL, &table, err);
    if (status == DL_OK) {
        status = dl_journal_beside(&journal, set->output, (dl_journal_mode)set->journal, err);
    }
    status = dl_cluster_agree(set->cluster, status, err);
    const dl_table_fit_config config = {.scenario_path = set->name,
                                        .scenario_text = set->text,
                                        .table_path = table,
                                        .use = set->use,
                                        .names = set->costs,
                                        .near = set->near,
                                        .threads = set->threads > 0 ? (int)set->threads
                                                                    : set->cluster->cpu_count,
                                        .cluster = set->cluster,
                                        .journal = journal,
                                        .progress = show,
                                        .user = &progress};
    if (status == DL_OK) status = dl_table_fit_run(&fit, &config, err);
    if (status != DL_OK && set->scenario == NULL) status = dl_scenario_command_error(NULL, err);
    dl_progress_end(&progress.progress);
    dl_journal_say_aside(fit.journal, "dlcal table");
    if (status == DL_OK && first) status = write_all(&fit, &config, set, err);
    if (status != DL_ERR_IO && status != DL_ERR_SYSTEM) dl_table_fit_end_journal(&fit);
    dl_table_fit_free(&fit);
    free(table);
    free(journal);
    free(set->name);
    free(set->text);
    return status;
}

int dl_calibrate_table(int argc, char **argv)
{
    dl_cluster cluster;
    dl_error error = {0};
    settings set = {.output = "costs.ini", .cluster = &cluster};
    const dl_option own[] = {
        DL_OPT_TEXT("scenario", 's', &set.scenario, "FILE",
                    "Scenario that the rows were measured in; its cost file gives what is known. "
                    "Options of dlsim stand for its keys, in place of it or over it."),
        DL_OPT_TEXT("fit", 0, &set.costs, "KEY,KEY...",
                    "Costs to fit, as section.key or key, also of the machine file, as "
                    "link.nvlink2.bytes_per_s (default: those that the cost file lacks)."),
        DL_OPT_TEXT("use", 0, &set.use, "USE",
                    "Only rows with this in the column use, such as fitted."),
        DL_OPT_FLAG("near", 0, &set.near,
                    "Search only from the cost file's values, not everywhere."),
        DL_OPT_TEXT("predict", 0, &set.predict, "FILE",
                    "Also predict the rows of this table, beside simpler models, and print the "
                    "errors."),
        DL_OPT_TEXT("output", 'o', &set.output, "FILE", "Cost file to write."),
        DL_OPT_TEXT("json", 0, &set.json, "FILE", "Also write the report as JSON."),
        DL_OPT_TEXT("rows", 0, &set.rows, "FILE",
                    "Also write the rows with their errors, in the fit and left out of it (CSV)."),
        DL_OPT_INT(
            "threads", 0, &set.threads, 0, 1024, "COUNT",
            "Threads that simulate (default: one per core); the result does not depend on it."),
        DL_OPT_CHOICE("journal", 0, &set.journal, dl_journal_modes, "MODE",
                      "What becomes of COSTS.journal, what a fit that was stopped has simulated: "
                      "resume goes on from it, restart starts anew; off keeps none."),
    };
    dl_option options[DL_LENGTH(own) + DL_SCENARIO_OPTIONS_ALL];
    memcpy(options, own, sizeof own);
    dl_scenario_options(options + DL_LENGTH(own), &set.command);
    const dl_command command = {
        .program = argv[0],
        .positional = "[TABLE]",
        .summary = "Fit costs of a scenario to a table of measured throughputs or step times "
                   "(CSV, columns as for dlsim's [measured]), through the simulator without noise. "
                   "Print errors, residuals, what the rows do not determine, and how well each "
                   "row is predicted from the others. Without TABLE, that of the scenario's "
                   "[measured] file.",
        .options = options,
        .option_count = sizeof options / sizeof *options,
        .positional_max = 1,
        .complete = dl_scenario_complete,
        .word = dl_scenario_option_word};
    dl_status status = dl_cluster_start(&cluster, &error);
    if (status == DL_OK) status = dl_command_run(&command, argc, argv, fit_table, &set, &error);
    dl_text_list_free(&set.command.set);
    return dl_cluster_end(&cluster, status, &error, argv[0]);
}
