#include "calibrate/commands.h"

#include <stdlib.h>
#include <string.h>

#include "calibrate/links/compare.h"
#include "common/alloc.h"
#include "common/options.h"
#include "common/output.h"
#include "common/units.h"

typedef struct settings {
    const char *json, *output, *base, *machine, *csv;
    int place; /* 0: in place, 1: out of place */
    bool judge;
    const char *nodes; /* comma-separated counts, or NULL */
} settings;

/* Parses the option's counts of nodes, for which curves are requested. */
static dl_status parse_nodes(const char *text, int **nodes, size_t *count, dl_error *err)
{
    char *copy = dl_strdup(text != NULL ? text : ""), *rest = NULL;
    dl_status status = DL_OK;
    for (char *item = strtok_r(copy, ",", &rest); item != NULL && status == DL_OK;
         item = strtok_r(NULL, ",", &rest)) {
        dl_error inner = {0};
        int64_t value = 0;
        status = dl_parse_int(item, 1, 65536, &value, &inner);
        if (status != DL_OK) {
            status = dl_error_set(err, DL_ERR_USAGE, "--nodes: %s", inner.text);
        } else {
            DL_APPEND(*nodes, *count, "nodes") = (int)value;
        }
    }
    free(copy);
    return status;
}

/* Checks the output files. --output may equal --costs, whose values it then keeps. */
static dl_status check_outputs(const dl_text_list *paths, const settings *set, dl_error *err)
{
    const dl_file_role outputs[] = {
        {"--output", set->output}, {"--json", set->json}, {"--csv", set->csv}};
    const dl_file_role inputs[] = {{"the file of --costs", set->base},
                                   {"the machine file", set->machine}};
    dl_status status = dl_outputs_check_paths(outputs, 3, "a log", paths->items, paths->count, err);
    if (status == DL_OK) status = dl_outputs_check(&outputs[1], 2, inputs, 2, err);
    return status == DL_OK ? dl_outputs_check(outputs, 1, &inputs[1], 1, err) : status;
}

static dl_status fit(const dl_text_list *paths, void *user, dl_error *err)
{
    const settings *set = user;
    if (set->base != NULL && set->output == NULL) {
        return dl_error_set(err, DL_ERR_USAGE, "--costs needs --output");
    }
    DL_SCOPED(dl_link_data) data = {0};
    DL_SCOPED(dl_link_results) links = {0};
    DL_SCOPED(dl_link_comparisons) comparisons = {0};
    const dl_link_place place = set->place == 0 ? DL_LINK_IN_PLACE : DL_LINK_OUT_OF_PLACE;
    DL_AUTOFREE int *nodes = NULL;
    size_t node_count = 0;
    if (set->nodes != NULL && set->output == NULL) {
        return dl_error_set(err, DL_ERR_USAGE, "--nodes needs --output");
    }
    if (set->csv != NULL && set->machine == NULL) {
        return dl_error_set(err, DL_ERR_USAGE, "--csv needs --machine");
    }
    dl_status status = check_outputs(paths, set, err);
    if (status == DL_OK) status = parse_nodes(set->nodes, &nodes, &node_count, err);
    for (size_t i = 0; i < paths->count && status == DL_OK; i++)
        status = dl_link_data_read(&data, paths->items[i], err);
    if (status == DL_OK) {
        dl_link_data_finish(&data);
        status = dl_link_results_fit(&links, &data, err);
    }
    if (status == DL_OK && set->output != NULL) {
        status = dl_link_costs_write(&links, place, nodes, node_count, set->base, set->output, err);
        if (status == DL_ERR_DATA && !set->judge) dl_link_results_print(&links, stdout);
    }
    if (status == DL_OK && set->machine != NULL) {
        status = dl_link_compare(&comparisons, &links, place, set->machine, err);
    }
    if (status == DL_OK && set->machine != NULL) {
        dl_link_comparisons_print(&comparisons, stdout);
        fputs("\n", stdout);
    }
    if (status == DL_OK && set->judge) dl_link_results_print_evaluations(&links, stdout);
    if (status == DL_OK && !set->judge) dl_link_results_print(&links, stdout);
    if (status == DL_OK && set->csv != NULL) {
        status = dl_link_comparisons_write(&comparisons, set->csv, err);
    }
    if (status == DL_OK && set->json != NULL) {
        status = dl_link_results_json_write(&links, set->json, err);
    }
    status = dl_outputs_end(status, err);
    if (status == DL_OK && set->output != NULL) printf("\ncosts written to %s\n", set->output);
    return status;
}

int dl_calibrate_links(int argc, char **argv)
{
    settings set = {0};
    static const char *const places[] = {"in", "out", NULL};
    const dl_option options[] = {
        DL_OPT_TEXT("output", 'o', &set.output, "FILE",
                    "Cost file to write, with the collectives' curves and the rates of pageable "
                    "copies."),
        DL_OPT_TEXT("costs", 0, &set.base, "FILE",
                    "Cost file whose other values are copied to the output."),
        DL_OPT_CHOICE("place", 0, &set.place, places, "PLACE",
                      "Times of nccl-tests to use for the cost file and the comparison: in place "
                      "or out of place."),
        DL_OPT_TEXT("nodes", 0, &set.nodes, "COUNTS",
                    "Also write the collectives' curves for these numbers of nodes "
                    "(comma-separated), extrapolated from three or more numbers of nodes in the "
                    "logs."),
        DL_OPT_TEXT("machine", 0, &set.machine, "NAME",
                    "Also compare each collective and copy with this machine, a file or a name "
                    "(dlsim --machines), and print possible causes of differences."),
        DL_OPT_TEXT("csv", 0, &set.csv, "FILE",
                    "Also write the comparison as CSV, one row per size."),
        DL_OPT_TEXT("json", 0, &set.json, "FILE", "Also write the report as JSON."),
        DL_OPT_FLAG("judge", 0, &set.judge,
                    "Print only the errors for sizes that were left out of the fit."),
    };
    const dl_command command = {
        .program = argv[0],
        .positional = "LOG...",
        .summary =
            "Fit latency and bandwidth of copies and collectives by regimes of size, from output "
            "of nccl-tests, the CUDA samples, nvbandwidth, gpu_copy_bw, perftest, OSU "
            "micro-benchmarks, and traces of dlprof bench. Print standard errors, outliers, values "
            "that the sizes do not determine, and how well every second size is predicted from the "
            "others.",
        .options = options,
        .option_count = DL_LENGTH(options),
        .positional_min = 1,
        .positional_max = 1000};
    return dl_command_main(&command, argc, argv, fit, &set);
}
