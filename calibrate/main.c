#include <gsl/gsl_errno.h>
#include <string.h>

#include "calibrate/calibration.h"
#include "calibrate/commands.h"
#include "common/alloc.h"
#include "common/cluster.h"
#include "common/options.h"
#include "common/output.h"

typedef struct fit_settings {
    const char *output, *json;
} fit_settings;

static dl_status fit(const dl_text_list *paths, void *user, dl_error *err)
{
    const fit_settings *set = user;
    DL_SCOPED(dl_calibration) calibration = {0};
    const dl_file_role outputs[] = {{"--output", set->output}, {"--json", set->json}};
    dl_status status =
        dl_outputs_check_paths(outputs, 2, "a trace", paths->items, paths->count, err);
    if (status == DL_OK) {
        status = dl_calibration_fit(&calibration, paths->items, paths->count, err);
    }
    if (status == DL_OK) dl_fit_report_print(&calibration, stdout);
    if (status == DL_OK) status = dl_calibration_write(&calibration, set->output, err);
    if (status == DL_OK && set->json != NULL) {
        status = dl_fit_report_json_write(&calibration, set->json, err);
    }
    status = dl_outputs_end(status, err);
    if (status == DL_OK) printf("\ncosts written to %s\n", set->output);
    return status;
}

static int cmd_fit(int argc, char **argv)
{
    fit_settings set = {.output = "costs.ini"};
    const dl_option options[] = {
        DL_OPT_TEXT("output", 'o', &set.output, "FILE", "Cost file to write."),
        DL_OPT_TEXT("json", 0, &set.json, "FILE", "Also write the report as JSON."),
    };
    const dl_command command = {
        .program = argv[0],
        .positional = "TRACE...",
        .summary = "Fit the costs of a workload and of this machine from traces of dlprof: "
                   "training with one worker (at two or more batch sizes) and bench. Print how "
                   "well the fits describe them.",
        .options = options,
        .option_count = DL_LENGTH(options),
        .positional_min = 1,
        .positional_max = 1000};
    return dl_command_main(&command, argc, argv, fit, &set);
}

static const dl_manual manual = {
    .title = "fit a cost file from traces, benchmarks and measured tables",
    .description =
        "Writes the cost files from which dlsim(1) simulates: every value with its unit, standard "
        "error, number of samples and provenance. Reads traces of dlprof(1), of PyTorch (Chrome "
        "JSON) and of Nsight Systems (SQLite), logs of communication benchmarks, and tables of "
        "measured throughputs.",
    .files = (const dl_manual_item[]){{"costs.ini", "Written if --output is not given."},
                                      {"costs.ini.journal",
                                       "Simulations of an unfinished fit to a table."},
                                      {NULL, NULL}},
    .see_also = "dlprof(1), dlsim(1), dlscale-costs(5)",
};

int main(int argc, char **argv)
{
    dl_output_start();
    gsl_set_error_handler_off();
    /* Only rank 0 runs commands that are not distributed. */
    if (dl_launcher_find().rank > 0 && (argc < 2 || strcmp(argv[1], "table") != 0)) return 0;
    const dl_subcommand commands[] = {
        {"fit", "Fit costs from traces, and write a cost file.", cmd_fit},
        {"costs", "Take the costs of a step from traces of any program, and write a cost file.",
         dl_calibrate_costs},
        {"generators",
         "Fit generators and a trainer of reinforcement learning from a table of parts of steps.",
         dl_calibrate_generators},
        {"info", "Summarize traces of other profilers (PyTorch, Nsight Systems).",
         dl_calibrate_info},
        {"links", "Fit times of copies and collectives by size, from logs of benchmarks.",
         dl_calibrate_links},
        {"predict", "Replay a trace with modelled collectives in place of its own.",
         dl_calibrate_predict},
        {"replay",
         "Simulate a trace's steps from durations and dependencies, also with changed costs.",
         dl_calibrate_replay},
        {"shapes", "Fit times of matrix products by shape, and write a machine file.",
         dl_calibrate_shapes},
        {"table", "Fit costs to a table of measured throughputs, by simulation.",
         dl_calibrate_table},
    };
    return dl_subcommands_main(
        "dlcal", "Fit cost files for dlsim from traces, benchmarks and measured tables.", commands,
        sizeof commands / sizeof commands[0], &manual, argc, argv);
}
