#include <gsl/gsl_errno.h>

#include "calibrate/calibration.h"
#include "calibrate/cmd_costs.h"
#include "calibrate/cmd_info.h"
#include "calibrate/cmd_links.h"
#include "calibrate/cmd_predict.h"
#include "calibrate/cmd_replay.h"
#include "calibrate/cmd_table.h"
#include "calibrate/fit_report.h"
#include "calibrate/fit_report_json.h"
#include "common/options.h"

static int fail(const char *program, const dl_error *err)
{
    dl_error_print(err, program, stderr);
    return dl_status_exit_code(err->code);
}

static dl_status fit(const dl_text_list *paths, const char *output, const char *json, dl_error *err)
{
    dl_calibration calibration = {0};
    dl_status status = dl_calibration_fit(&calibration, paths->items, paths->count, err);
    if (status == DL_OK) dl_fit_report_print(&calibration, stdout);
    if (status == DL_OK) status = dl_calibration_write(&calibration, output, err);
    if (status == DL_OK && json != NULL) status = dl_fit_report_json_write(&calibration, json, err);
    if (status == DL_OK) printf("\ncosts written to %s\n", output);
    dl_calibration_free(&calibration);
    return status;
}

static int cmd_fit(int argc, char **argv)
{
    const char *output = "costs.ini", *json = NULL;
    const dl_option options[] = {
        {.name = "output",
         .letter = 'o',
         .type = DL_OPTION_TEXT,
         .target = &output,
         .argument = "FILE",
         .help = "Cost file to write."},
        {.name = "json",
         .type = DL_OPTION_TEXT,
         .target = &json,
         .argument = "FILE",
         .help = "Also write the report as JSON."},
    };
    const dl_command command = {
        .program = argv[0],
        .positional = "TRACE...",
        .summary = "Fits the costs of a workload and of this machine from traces of dlprof: "
                   "training with one worker (at two or more batch sizes) and bench. Prints how "
                   "well the fits describe them.",
        .options = options,
        .option_count = sizeof options / sizeof *options,
        .positional_min = 1,
        .positional_max = 1000};
    dl_text_list paths = {0};
    dl_options_action action;
    dl_error err = {0};
    dl_status status = dl_options_parse(&command, argc, argv, &paths, &action, &err);
    if (status == DL_OK && action == DL_OPTIONS_RUN) status = fit(&paths, output, json, &err);
    dl_text_list_free(&paths);
    return status == DL_OK ? 0 : fail(argv[0], &err);
}

int main(int argc, char **argv)
{
    gsl_set_error_handler_off();
    const dl_subcommand commands[] = {
        {"fit", "Fit costs from traces, and write a cost file.", cmd_fit},
        {"costs", "Take the costs of a step from traces of any program, and write a cost file.",
         dl_calibrate_costs},
        {"info", "Summarise traces of other profilers (PyTorch, Nsight Systems).",
         dl_calibrate_info},
        {"links", "Fit copies and collectives by size, from logs of benchmarks.",
         dl_calibrate_links},
        {"predict", "Take a trace's collectives out and put modelled ones in.",
         dl_calibrate_predict},
        {"replay", "Re-time traces from durations and dependencies; what-if questions.",
         dl_calibrate_replay},
        {"table", "Fit costs to a table of measured throughputs.", dl_calibrate_table},
    };
    return dl_subcommands_main("dlcal", "Fits costs from traces for dlsim.", commands,
                               sizeof commands / sizeof commands[0], argc, argv);
}
