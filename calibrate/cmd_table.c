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
    dl_text_list scenarios, outputs, rows, costs, predict; /* one item per scenario, in order;
                                                            * `costs` may have one for all */
    const char *json, *share, *use;
    bool near;
    int64_t threads;
    int journal;
    dl_scenario_command command;
    dl_cluster *cluster;
} settings;

/* A scenario of the fit with its files. */
typedef struct pair {
    const char *scenario, *output, *rows, *predict; /* borrowed; NULL: not given */
    char *name, *text; /* name and text of the scenario, including the command line's keys */
    char *table;
    dl_scenario read;
} pair;

typedef struct shown {
    dl_progress progress;
    const dl_table_fit *fit;
} shown;

/* Shows the progress of the search, then of the fits without some rows, each with its own rate. */
static void show(void *user, const char *what, int64_t done, int64_t count)
{
    shown *s = user;
    const dl_journal *journal = s->fit->journal;
    if (s->progress.what == NULL && journal != NULL && dl_journal_count(journal) > 0) {
        fprintf(stderr, "dlcal: continues after %zu simulations from the journal\n",
                dl_journal_count(journal));
    }
    if (s->progress.what != what) {
        dl_progress_end(&s->progress);
        dl_progress_start(&s->progress, "dlcal", what);
    }
    dl_progress_show(&s->progress, done, count);
}

/* Gets the list item of scenario `index` of `count`; NULL if there is none. */
static dl_status item_of(const dl_text_list *list, const char *what, size_t index, size_t count,
                         const char **item, dl_error *err)
{
    *item = list->count > 0 && index < list->count ? list->items[index] : NULL;
    if (list->count == 0 || list->count == count) return DL_OK;
    return dl_error_set(err, DL_ERR_USAGE, "%s is given %zu times for %zu scenario%s", what,
                        list->count, count, count > 1 ? "s" : "");
}

/* Takes the options of scenario `index`; `tables` are the arguments. */
static dl_status take_pair(const settings *set, const dl_text_list *tables, size_t index,
                           size_t count, pair *to, dl_table_part_config *part, dl_error *err)
{
    const char *table;
    const dl_text_list one = {set->costs.items, set->costs.count == 1 ? 0 : set->costs.count};
    dl_status status = item_of(&set->scenarios, "--scenario", index, count, &to->scenario, err);
    if (status == DL_OK) status = item_of(tables, "TABLE", index, count, &table, err);
    if (status == DL_OK) {
        status = item_of(&set->outputs, "--output", index, count, &to->output, err);
    }
    if (status == DL_OK) status = item_of(&set->rows, "--rows", index, count, &to->rows, err);
    if (status == DL_OK) {
        status = item_of(&set->predict, "--predict", index, count, &to->predict, err);
    }
    if (status == DL_OK) status = item_of(&one, "--fit", index, count, &part->names, err);
    if (status != DL_OK) return status;
    if (set->costs.count == 1) part->names = set->costs.items[0];
    to->table = table != NULL ? dl_strdup(table) : NULL;
    if (to->output == NULL && count == 1) to->output = "costs.ini";
    if (to->output != NULL) return DL_OK;
    return dl_error_set(err, DL_ERR_USAGE, "--output is needed for each of %zu scenarios", count);
}

/* Reads the scenario to find the files that it names. The table that it names is the default. */
static dl_status read_scenario(const settings *set, pair *of, dl_error *err)
{
    bool by_costs = false;
    dl_status status =
        dl_scenario_text(&set->command, of->scenario, &of->text, &of->name, &by_costs, err);
    if (status == DL_OK) status = dl_table_scenario_read(&of->read, NULL, of->name, of->text, err);
    if (status != DL_OK) return dl_scenario_command_error(&set->command, of->scenario, err);
    if (of->table == NULL && of->read.measured_path != NULL) {
        of->table = dl_strdup(of->read.measured_path);
    }
    return DL_OK;
}

/* Checks before the search, which may take long, that outputs are writable and are not inputs, and
 * that each scenario has a table. */
static dl_status check_files(const settings *set, const pair *pairs, size_t count, dl_error *err)
{
    enum { INPUTS = 6 };
    dl_file_role outputs[2 * DL_TABLE_PARTS_MAX + 1], inputs[INPUTS * DL_TABLE_PARTS_MAX];
    size_t output_count = 0;
    for (size_t p = 0; p < count; p++) {
        const dl_scenario *scenario = &pairs[p].read;
        const char *machine = scenario->gpu != NULL ? scenario->gpu->machine.path : NULL;
        const dl_file_role own[INPUTS] = {
            {"the table", pairs[p].table},
            {"the table of --predict", pairs[p].predict},
            {"the scenario", pairs[p].scenario},
            {"the scenario's cost file", scenario->costs_path},
            {"the scenario's machine file", machine},
            {"the machine file of scale_compute", scenario->scale_path},
        };
        memcpy(inputs + INPUTS * p, own, sizeof own);
        outputs[output_count++] = (dl_file_role){"--output", pairs[p].output};
        outputs[output_count++] = (dl_file_role){"--rows", pairs[p].rows};
    }
    outputs[output_count++] = (dl_file_role){"--json", set->json};
    if (set->cluster->rank > 0) output_count = 0; /* only rank 0 writes */
    const dl_status status = dl_outputs_check(outputs, output_count, inputs, INPUTS * count, err);
    for (size_t p = 0; p < count && status == DL_OK; p++) {
        if (pairs[p].table != NULL) continue;
        return dl_error_set(err, DL_ERR_USAGE,
                            "missing argument TABLE: the scenario has no [measured] file either");
    }
    return status;
}

/* Writes the report, the cost files and other results of a fit on rank 0. */
static dl_status write_all(const dl_table_fit *fit, const dl_table_fit_config *config,
                           const settings *set, const pair *pairs, dl_error *err)
{
    dl_table_report_print(fit, stdout);
    dl_status status = DL_OK;
    for (size_t p = 0; p < fit->part_count && status == DL_OK; p++) {
        status = dl_table_fit_write(fit, p, pairs[p].output, err);
        if (status == DL_OK && pairs[p].rows != NULL) {
            status = dl_table_report_rows_write(&fit->parts[p], pairs[p].rows, err);
        }
    }
    if (status == DL_OK && set->json != NULL) {
        status = dl_table_report_json_write(fit, set->json, err);
    }
    for (size_t p = 0; p < fit->part_count && status == DL_OK; p++) {
        if (pairs[p].predict == NULL) continue;
        DL_SCOPED(dl_table_evaluation) evaluation = {0};
        status = dl_table_evaluate(&evaluation, fit, config, p, pairs[p].predict, err);
        if (status == DL_OK) dl_table_evaluation_print(&evaluation, stdout);
    }
    status = dl_outputs_end(status, err);
    for (size_t p = 0; p < fit->part_count && status == DL_OK; p++)
        printf("%scosts written to %s\n", p == 0 ? "\n" : "", pairs[p].output);
    return status;
}

/* Fits, and writes the results. */
static dl_status fit_pairs(const settings *set, const pair *pairs, dl_table_fit_config *config,
                           dl_error *err)
{
    DL_SCOPED(dl_table_fit) fit = {0};
    shown progress = {.fit = &fit};
    config->progress = show;
    config->user = &progress;
    dl_status status = dl_table_fit_run(&fit, config, err);
    if (status != DL_OK && set->scenarios.count == 0)
        status = dl_scenario_command_error(&set->command, NULL, err);
    dl_progress_end(&progress.progress);
    dl_journal_say_aside(fit.journal, "dlcal table");
    if (status == DL_OK && set->cluster->rank == 0) {
        status = write_all(&fit, config, set, pairs, err);
    }
    if (status != DL_ERR_IO && status != DL_ERR_SYSTEM) dl_table_fit_end_journal(&fit);
    return status;
}

static dl_status fit_table(const dl_text_list *tables, void *user, dl_error *err)
{
    const settings *set = user;
    if (set->scenarios.count == 0 && !dl_scenario_command_given(&set->command)) {
        return dl_error_set(err, DL_ERR_USAGE,
                            "--scenario FILE is needed, or --costs and other options in its place");
    }
    const size_t count = set->scenarios.count > 0 ? set->scenarios.count : 1;
    if (count > DL_TABLE_PARTS_MAX) {
        return dl_error_set(err, DL_ERR_USAGE, "more than %d scenarios", DL_TABLE_PARTS_MAX);
    }
    DL_AUTOFREE pair *pairs = dl_calloc(count, sizeof *pairs, "scenarios");
    dl_table_part_config parts[DL_TABLE_PARTS_MAX] = {0};
    DL_AUTOFREE char *journal = NULL;
    dl_status status = DL_OK;
    for (size_t p = 0; p < count && status == DL_OK; p++) {
        status = take_pair(set, tables, p, count, &pairs[p], &parts[p], err);
        if (status == DL_OK) status = read_scenario(set, &pairs[p], err);
        parts[p].scenario_path = pairs[p].name;
        parts[p].scenario_text = pairs[p].text;
        parts[p].table_path = pairs[p].table;
    }
    if (status == DL_OK) status = check_files(set, pairs, count, err);
    if (status == DL_OK) {
        status = dl_journal_beside(&journal, set->cluster->rank == 0 ? pairs->output : NULL,
                                   (dl_journal_mode)set->journal, err);
    }
    status = dl_cluster_agree(set->cluster, status, err);
    dl_table_fit_config config = {.parts = parts,
                                  .part_count = count,
                                  .share = set->share,
                                  .use = set->use,
                                  .near = set->near,
                                  .threads = set->threads > 0 ? (int)set->threads
                                                              : set->cluster->cpu_count,
                                  .cluster = set->cluster,
                                  .journal = journal};
    if (status == DL_OK) status = fit_pairs(set, pairs, &config, err);
    for (size_t p = 0; p < count; p++) {
        free(pairs[p].table);
        free(pairs[p].name);
        free(pairs[p].text);
        dl_scenario_free(&pairs[p].read);
    }
    return status;
}

int dl_calibrate_table(int argc, char **argv)
{
    dl_cluster cluster;
    dl_error error = {0};
    settings set = {.cluster = &cluster, .command.needs_no_batch = true};
    const dl_option own[] = {
        DL_OPT_LIST("scenario", 's', &set.scenarios, "FILE",
                    "Scenario of the rows; its cost file has the known costs. Options of dlsim "
                    "set its keys, with or without a file. Several scenarios each need their own "
                    "TABLE and --output, in the same order."),
        DL_OPT_LIST(
            "fit", 0, &set.costs, "KEY,KEY...",
            "Costs to fit, as SECTION.KEY or KEY, also of the machine file, as in "
            "link.nvlink2.bytes_per_s (default: those missing in the cost file). With several "
            "scenarios: the costs that they do not share, given once for all or once for each."),
        DL_OPT_TEXT("share", 0, &set.share, "KEY,KEY...",
                    "Costs to fit with one value for all scenarios, such as a cluster's "
                    "network.bytes_per_s."),
        DL_OPT_TEXT("use", 0, &set.use, "USE",
                    "Use only rows with this value in the column `use`, such as fitted."),
        DL_OPT_FLAG("near", 0, &set.near,
                    "Start the search only at the cost file's values, not throughout the ranges."),
        DL_OPT_LIST("predict", 0, &set.predict, "FILE",
                    "Also predict the rows of this table, compare with simpler models, and print "
                    "the errors. With several scenarios: once for each."),
        DL_OPT_LIST("output", 'o', &set.outputs, "FILE",
                    "Cost file to write (default: costs.ini)."),
        DL_OPT_TEXT("json", 0, &set.json, "FILE", "Also write the report as JSON."),
        DL_OPT_LIST("rows", 0, &set.rows, "FILE",
                    "Also write the rows with their errors, both in the fit and left out of it "
                    "(CSV). With several scenarios: once for each."),
        DL_OPT_INT(
            "threads", 0, &set.threads, 0, 1024, "COUNT",
            "Number of threads that simulate (default: one per core); the result does not depend "
            "on it."),
        DL_OPT_CHOICE("journal", 0, &set.journal, dl_journal_modes, "MODE",
                      "Use of COSTS.journal, which keeps the simulations of a stopped fit: "
                      "resume continues from it, restart discards it, off writes none."),
    };
    dl_option options[DL_LENGTH(own) + DL_SCENARIO_OPTIONS_ALL];
    memcpy(options, own, sizeof own);
    dl_scenario_options(options + DL_LENGTH(own), &set.command);
    const dl_command command = {
        .program = argv[0],
        .positional = "[TABLE...]",
        .summary = "Fit costs of a scenario to a table of measured throughputs or step times "
                   "(CSV, columns as for dlsim's [measured]), by simulation without noise. Print "
                   "errors, residuals, costs that the rows do not determine, and how well each "
                   "row is predicted from the others. Without TABLE, the table is that of the "
                   "scenario's [measured] file.",
        .options = options,
        .option_count = DL_LENGTH(options),
        .positional_max = DL_TABLE_PARTS_MAX,
        .complete = dl_scenario_complete,
        .word = dl_scenario_option_word};
    dl_status status = dl_cluster_start(&cluster, &error);
    if (status == DL_OK) status = dl_command_run(&command, argc, argv, fit_table, &set, &error);
    dl_text_list *const lists[] = {&set.command.set, &set.scenarios, &set.outputs,
                                   &set.rows,        &set.costs,     &set.predict};
    for (size_t i = 0; i < DL_LENGTH(lists); i++)
        dl_text_list_free(lists[i]);
    return dl_cluster_end(&cluster, status, &error, argv[0]);
}
