/* dlsim: simulates the points of a scenario and writes what they predict. */
#include <gsl/gsl_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cpu.h"
#include "common/names.h"
#include "common/options.h"
#include "common/output.h"
#include "common/units.h"
#include "sim/network/machine_graph.h"
#include "sim/report/index.h"
#include "sim/report/notes.h"
#include "sim/report/page.h"
#include "sim/report/report.h"
#include "sim/report/timeline.h"
#include "sim/scenario/command.h"
#include "sim/scenario/keys.h"
#include "sim/scenario/without.h"
#include "sim/schedule.h"

#define PROGRESS_AFTER_NS (2 * DL_NS_PER_S)
#define PROGRESS_EVERY_NS (DL_NS_PER_S / 5)

static const char default_output[] = "results.csv";

typedef struct settings {
    const char *output, *timeline, *schedule, *histogram, *without, *draw;
    const char *html, *index, *left_out;
    int64_t threads, seed, point; /* seed -1: the scenario's; point 0: the last */
    bool check, quiet, keys, markdown, machines;
    const char *save;
    dl_scenario_command command;
} settings;

/* All that is read before the simulation. */
typedef struct inputs {
    dl_study study;
    dl_measured *measured;
} inputs;

typedef struct progress {
    int64_t start_ns, last_ns;
    bool shown;
} progress;

static void show_progress(void *user, int64_t done, int64_t runs)
{
    progress *p = user;
    int64_t now_ns = dl_clock_ns();
    if (now_ns - p->start_ns < PROGRESS_AFTER_NS || now_ns - p->last_ns < PROGRESS_EVERY_NS) return;
    dprintf(STDERR_FILENO, "\r%lld of %lld runs", (long long)done, (long long)runs);
    p->last_ns = now_ns;
    p->shown = true;
}

static void free_inputs(inputs *in)
{
    dl_measured_free(in->measured, in->study.point_count);
    dl_study_free(&in->study);
}

/* The scenario `path` (NULL: none) with what the command line says. */
static dl_status read_study(dl_study *study, const char *path, const settings *set, dl_error *err)
{
    if (path != NULL && set->save == NULL && !dl_scenario_command_given(&set->command)) {
        return dl_study_read(study, path, err);
    }
    char *text = NULL, *name = NULL;
    dl_status status = dl_scenario_text(&set->command, path, &text, &name, err);
    if (status == DL_OK) status = dl_study_read_text(study, name, text, strlen(text), err);
    if (status == DL_OK && set->save != NULL) {
        status = dl_scenario_save(set->save, text, name, err);
    }
    if (path == NULL && (status == DL_ERR_NAME || status == DL_ERR_RANGE)) status = DL_ERR_USAGE;
    free(text);
    free(name);
    return status;
}

static dl_status read_inputs(inputs *in, const char *path, const settings *set, dl_error *err)
{
    unsigned without = 0;
    dl_status status = DL_OK;
    if (set->without != NULL) status = dl_without_parse(set->without, &without, err);
    if (status == DL_OK) status = read_study(&in->study, path, set, err);
    if (status == DL_OK) status = dl_study_read_costs(&in->study, err);
    if (status == DL_OK) status = dl_measured_read(&in->measured, &in->study, err);
    if (status == DL_OK && set->left_out != NULL) {
        status = dl_measured_read_left_out(in->measured, in->study.point_count, set->left_out, err);
    }
    if (status == DL_OK && set->point > (int64_t)in->study.point_count) {
        status = dl_error_set(err, DL_ERR_USAGE, "--point %lld: the scenario has %zu points",
                              (long long)set->point, in->study.point_count);
    }
    for (size_t v = 0; v < in->study.variant_count && status == DL_OK; v++) {
        dl_variant *variant = &in->study.variants[v];
        dl_without_apply(without, &variant->scenario, &variant->costs);
        if (set->seed >= 0) variant->scenario.seed = set->seed;
    }
    return status;
}

/* Before the simulation, and before anything is written. */
static dl_status check_outputs(const inputs *in, const settings *set, dl_error *err)
{
    const dl_file_role outputs[] = {
        {"--draw-machine", set->draw},
        {"--save", set->save},
        {"--output", set->check ? NULL : set->output},
        {"--html", set->check ? NULL : set->html},
        {"--histogram", set->check ? NULL : set->histogram},
        {"--timeline", set->check ? NULL : set->timeline},
        {"--schedule", set->check ? NULL : set->schedule},
    };
    dl_status status = DL_OK;
    for (size_t v = 0; v < in->study.variant_count && status == DL_OK; v++) {
        const dl_scenario *scenario = &in->study.variants[v].scenario;
        const dl_file_role read[] = {
            {"the scenario", scenario->path},
            {"the cost file", scenario->costs_path},
            {"the machine file", scenario->gpu != NULL ? scenario->gpu->machine.path : NULL},
            {"the machine file of scale_compute", scenario->scale_path},
            {"the measured file", scenario->measured_path},
            {"the table of --left-out", set->left_out},
        };
        status = dl_outputs_check(outputs, sizeof outputs / sizeof *outputs, read,
                                  sizeof read / sizeof *read, err);
    }
    return status;
}

/* The variant and the point that --point means. */
static const dl_variant *chosen(const inputs *in, const settings *set, size_t *point)
{
    size_t row = set->point > 0 ? (size_t)set->point - 1 : in->study.point_count - 1;
    return dl_study_variant(&in->study, row, point);
}

/* Lists what is missing, one a line: the list may be longer than an error text. */
static dl_status check(const inputs *in, dl_error *err)
{
    const char *path = NULL;
    char *missing = dl_study_missing(&in->study, &path);
    if (missing == NULL) return DL_OK;
    fprintf(stderr, "%s lacks:\n", path);
    int count = 0;
    for (char *rest = missing; rest != NULL; count++) {
        char *end = strstr(rest, ", ");
        if (end != NULL) *end = '\0';
        fprintf(stderr, "  %s\n", rest);
        rest = end != NULL ? end + 2 : NULL;
    }
    free(missing);
    return dl_error_set_at(err, DL_ERR_DATA, path, 0,
                           "%d costs that the scenario needs are missing", count);
}

static void print_checked(const inputs *in)
{
    const dl_scenario *first = &in->study.variants[0].scenario;
    printf("%s: %zu points, %lld replicates of %lld steps; no costs are missing\n", in->study.path,
           in->study.point_count, (long long)first->replicates, (long long)first->steps);
    size_t count = 0;
    char **notes = dl_study_notes(&in->study, &count);
    for (size_t i = 0; i < count; i++)
        printf("note: %s\n", notes[i]);
    dl_study_notes_free(notes, count);
}

static dl_status write_timeline(const inputs *in, const settings *set, dl_error *err)
{
    size_t point = 0;
    const dl_variant *variant = chosen(in, set, &point);
    return dl_timeline_write(set->timeline, &variant->scenario, &variant->costs,
                             &variant->scenario.points[point], err);
}

static dl_status write_schedule(const inputs *in, const settings *set, dl_error *err)
{
    size_t point = 0;
    const dl_variant *variant = chosen(in, set, &point);
    return dl_schedule_write(set->schedule, &variant->scenario, &variant->costs,
                             &variant->scenario.points[point], err);
}

static dl_status write_all(const inputs *in, const dl_sweep *sweep, const settings *set,
                           dl_error *err)
{
    const dl_study *study = &in->study;
    dl_status status = dl_report_results(set->output, study, sweep, in->measured, err);
    if (status == DL_OK && set->histogram != NULL) {
        status = dl_report_histogram(set->histogram, study, sweep, err);
    }
    if (status == DL_OK && set->html != NULL) {
        status = dl_page_write(set->html, set->output, study, sweep, in->measured, err);
    }
    if (status == DL_OK && set->timeline != NULL) status = write_timeline(in, set, err);
    if (status == DL_OK && set->schedule != NULL) status = write_schedule(in, set, err);
    status = dl_outputs_end(status, err);
    if (status != DL_OK || set->quiet) return status;
    dl_report_table(stdout, study, sweep, in->measured);
    printf("%zu points in %s%s%s\n", sweep->row_count, set->output,
           set->html != NULL ? ", page in " : "", set->html != NULL ? set->html : "");
    return DL_OK;
}

static dl_status draw_machine(const inputs *in, const settings *set, dl_error *err)
{
    size_t point = 0;
    const dl_scenario *scenario = &chosen(in, set, &point)->scenario;
    if (scenario->gpu != NULL) {
        return dl_machine_graph_save(&scenario->gpu->machine, set->draw, err);
    }
    return dl_error_set_at(err, DL_ERR_DATA, scenario->path, 0,
                           "--draw-machine needs a machine file: [machine] file is not given");
}

static dl_status simulate(const inputs *in, const settings *set, dl_error *err)
{
    progress p = {.start_ns = dl_clock_ns()};
    bool watched = !set->quiet && isatty(STDERR_FILENO);
    dl_sweep sweep = {0};
    const dl_sweep_config config = {(int)set->threads, watched ? show_progress : NULL, &p};
    dl_status status = dl_sweep_run(&sweep, &in->study, &config, err);
    if (p.shown) dprintf(STDERR_FILENO, "\r%40s\r", "");
    if (status == DL_OK) status = write_all(in, &sweep, set, err);
    dl_sweep_free(&sweep);
    return status;
}

/* The reference of all keys, or of one section's. */
static dl_status print_keys(const char *section, bool markdown, dl_error *err)
{
    const struct {
        const char *title;
        const dl_keys *keys;
        dl_key_takes_fn takes;
    } files[] = {
        {"Scenario", &dl_scenario_keys, dl_scenario_key_takes},
        {"Machine file", &dl_machine_keys, NULL},
        {"Cost file", &dl_cost_keys, NULL},
    };
    bool found = false;
    if (markdown) {
        printf(
            "# Keys of all files\n\nMade by `dlsim --keys --markdown`. Numbers take the units that "
            "are named; without one they are in the first. Values outside of the range are "
            "refused.\n");
    }
    for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
        char *text = NULL;
        size_t bytes = 0;
        FILE *out = open_memstream(&text, &bytes);
        DL_ASSERT(out != NULL, "no memory for %s", files[f].title);
        const bool has = dl_keys_print(out, files[f].keys, section, markdown, files[f].takes);
        fclose(out);
        if (has) printf(markdown ? "\n## %s\n%s" : "--- %s\n%s\n", files[f].title, text);
        free(text);
        found |= has;
    }
    if (found) return DL_OK;
    char hint[300];
    const char *names[DL_SCENARIO_KEYS_MAX];
    size_t count = 0;
    for (size_t i = 0; i < dl_scenario_keys.count; i++) {
        const char *name = dl_scenario_keys.rows[i].section;
        if (dl_names_find(name, names, count) < 0) names[count++] = name;
    }
    dl_names_hint(hint, sizeof hint, section, names, count);
    return dl_error_set(err, DL_ERR_USAGE, "no file has a section [%s]%s", section, hint);
}

static dl_status write_index(const settings *set, dl_error *err)
{
    if (set->html == NULL) {
        return dl_error_set(err, DL_ERR_USAGE, "--index needs --html FILE, the page to write");
    }
    const char *rows = set->output != default_output ? set->output : NULL;
    const dl_file_role outputs[] = {{"--html", set->html}, {"--output", rows}};
    const dl_file_role read[] = {{"the list of --index", set->index}};
    dl_outputs_hold();
    dl_status status = dl_outputs_check(outputs, 2, read, 1, err);
    if (status == DL_OK) {
        status = dl_index_write(set->html, rows, set->quiet ? NULL : stdout, set->index, err);
    }
    return dl_outputs_end(status, err);
}

static dl_status run(int argc, char **argv, dl_error *err)
{
    settings set = {.output = default_output, .threads = dl_cpu_count(), .seed = -1};
    const dl_option own[] = {
        {"output", 'o', DL_OPTION_TEXT, &set.output, 0, 0, NULL, "FILE", "Results (CSV)."},
        {"html", 0, DL_OPTION_TEXT, &set.html, 0, 0, NULL, "FILE",
         "One page for any browser: tables, figures (drawn by gnuplot, if it is installed), what "
         "takes "
         "the time and what would help most, predicted beside measured."},
        {"index", 0, DL_OPTION_TEXT, &set.index, 0, 0, NULL, "LIST",
         "Simulate nothing: write an index of many studies' pages to --html, from a list (CSV: "
         "group, "
         "title, file) of their results, and a table of all measured rows to --output."},
        {"left-out", 0, DL_OPTION_TEXT, &set.left_out, 0, 0, NULL, "FILE",
         "Errors of the measured rows with costs fitted to the others, as dlcal table --rows "
         "writes "
         "them, for results and page."},
        {"timeline", 0, DL_OPTION_TEXT, &set.timeline, 0, 0, NULL, "FILE",
         "One simulated run as Chrome-trace JSON."},
        {"schedule", 0, DL_OPTION_TEXT, &set.schedule, 0, 0, NULL, "FILE",
         "Order of the updates of one simulated run (CSV), for dlprof train --schedule."},
        {"point", 0, DL_OPTION_INT, &set.point, 0, 1e9, NULL, "ROW",
         "Row of the results that --timeline, --schedule and --draw-machine show; 0 is the last "
         "one."},
        {"histogram", 0, DL_OPTION_TEXT, &set.histogram, 0, 0, NULL, "FILE",
         "Staleness distribution of each worker (CSV)."},
        {"draw-machine", 0, DL_OPTION_TEXT, &set.draw, 0, 0, NULL, "FILE",
         "The machine's links as Graphviz text; with --check nothing is simulated."},
        {"without", 0, DL_OPTION_TEXT, &set.without, 0, 0, NULL, "LIST",
         "Costs to switch off, to see what they are worth: dispatch, input, copy, contention, "
         "average, "
         "update, sharing, memory, overlap, noise, slow, lock, barrier, wakeup; of split models "
         "activations, micro_batches, imbalance, bubble."},
        {"threads", 0, DL_OPTION_INT, &set.threads, 1, 1024, NULL, "COUNT",
         "Threads that simulate; the results do not depend on it."},
        {"seed", 0, DL_OPTION_INT, &set.seed, -1, 9e18, NULL, "SEED",
         "Seed in place of the scenario's; -1 keeps it."},
        {"check", 0, DL_OPTION_FLAG, &set.check, 0, 0, NULL, NULL,
         "Only validate and list the costs that are missing."},
        {"keys", 0, DL_OPTION_FLAG, &set.keys, 0, 0, NULL, NULL,
         "Only list the keys of scenarios, machine files and cost files, with range and default; "
         "of "
         "one section where its name is given in place of SCENARIO."},
        {"save", 0, DL_OPTION_TEXT, &set.save, 0, 0, NULL, "FILE",
         "Write the scenario, with what the command line says, to a file."},
        {"machines", 0, DL_OPTION_FLAG, &set.machines, 0, 0, NULL, NULL,
         "Only list the machines that --machine knows by name."},
        {"markdown", 0, DL_OPTION_FLAG, &set.markdown, 0, 0, NULL, NULL,
         "With --keys: as docs/keys.md."},
        {"quiet", 'q', DL_OPTION_FLAG, &set.quiet, 0, 0, NULL, NULL, "Print no table."},
    };
    enum { OWN = sizeof own / sizeof *own };
    dl_option options[OWN + DL_SCENARIO_OPTIONS + 1];
    memcpy(options, own, sizeof own);
    dl_scenario_options(options + OWN, &set.command);
    const dl_command command = {
        .program = "dlsim",
        .positional = "SCENARIO",
        .summary =
            "Simulates data-parallel training as SCENARIO (an INI file) and the command line "
            "describe it.",
        .options = options,
        .option_count = sizeof options / sizeof *options,
        .positional_max = 1,
    };
    dl_text_list positional = {0};
    dl_options_action action = DL_OPTIONS_RUN;
    dl_status status = dl_options_parse(&command, argc, argv, &positional, &action, err);
    if (status == DL_OK && action == DL_OPTIONS_RUN && set.keys) {
        status = print_keys(positional.count > 0 ? positional.items[0] : NULL, set.markdown, err);
    } else if (status == DL_OK && action == DL_OPTIONS_RUN && set.machines) {
        status = dl_machines_print(stdout, err);
    } else if (status == DL_OK && action == DL_OPTIONS_RUN && set.index != NULL) {
        status =
            positional.count == 0
                ? write_index(&set, err)
                : dl_error_set(err, DL_ERR_USAGE, "--index takes no SCENARIO, but '%s' is given",
                               positional.items[0]);
    } else if (status == DL_OK && action == DL_OPTIONS_RUN && positional.count == 0 &&
               !dl_scenario_command_given(&set.command)) {
        status = dl_error_set(err, DL_ERR_USAGE,
                              "missing argument SCENARIO (0 given, 1 needed), or --costs");
    } else if (status == DL_OK && action == DL_OPTIONS_RUN) {
        inputs in = {0};
        dl_outputs_hold();
        status = read_inputs(&in, positional.count > 0 ? positional.items[0] : NULL, &set, err);
        if (status == DL_OK) status = check_outputs(&in, &set, err);
        if (status == DL_OK && set.draw != NULL) status = draw_machine(&in, &set, err);
        if (status == DL_OK) status = check(&in, err);
        if (status == DL_OK && !set.check) status = simulate(&in, &set, err);
        status = dl_outputs_end(status, err);
        if (status == DL_OK && set.check && !set.quiet) print_checked(&in);
        free_inputs(&in);
    }
    if (status == DL_OK) status = dl_stdout_check(err);
    dl_text_list_free(&positional);
    dl_text_list_free(&set.command.set);
    return status;
}

int main(int argc, char **argv)
{
    dl_output_start();
    gsl_set_error_handler_off();
    dl_error error = {0};
    dl_status status = run(argc, argv, &error);
    if (status != DL_OK) dl_error_print(&error, "dlsim", stderr);
    return dl_status_exit_code(status);
}
