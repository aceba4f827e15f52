/* The command line of dlsim: its options, and what they imply. */
#include <string.h>

#include "common/alloc.h"
#include "common/options.h"
#include "sim/main.h"
#include "sim/report/advise.h"
#include "sim/report/solve.h"
#include "sim/scenario/without.h"

static const char default_advice[] = "advice.csv", default_solved[] = "solved.csv";
const char dl_default_output[] = "results.csv";
static const char *const advice_kinds[] = {"settings", "layout", NULL};

static const dl_manual manual = {
    .title = "simulate data-parallel training and predict its speedup and staleness",
    .description =
        "A discrete-event simulation of synchronous and asynchronous training, on the cores of a "
        "processor or on the GPUs of a machine, from the times in a cost file (dlcal(1) writes "
        "one). Each list in the scenario makes a row for each of its values. Results are a table "
        "on standard output, and a CSV file; a scenario is read from SCENARIO, made from --costs, "
        "--machine, --workers and so on alone, or changed by them.",
    .environment =
        (const dl_manual_item[]){
            {"DLSCALE_SHARE",
             "Folder in place of the installation's share/dlscale: its scenarios/machines holds "
             "the machines of --machine, its plots the scripts of the figures, its page the "
             "simulator "
             "for pages."},
            {"TMPDIR", "Where figures are drawn; /tmp if it is not set."},
            {NULL, NULL}},
    .files =
        (const dl_manual_item[]){
            {"results.csv", "Written if --output is not given."},
            {"advice.csv", "The same with --advise."},
            {"results.csv.journal", "Finished runs of an incomplete sweep."},
            {"share/dlscale/scenarios",
             "In the folder of the installation: example scenarios, cost files, machine files, "
             "measured rows."},
            {NULL, NULL}},
    .exit_codes =
        (const dl_manual_item[]){{"3", "No point fits into the memory of its GPUs."}, {NULL, NULL}},
    .see_also = "dlcal(1), dlprof(1), dlscale-costs(5), dlscale-machine(5), dlscale-scenario(5), "
                "gnuplot(1)",
};

/* The program's own options; the options for keys of the scenario precede them. */
static const dl_option own_options[] = {
    DL_OPTION_ROW_NUMBER(INT, "seed", 0, dl_settings, seed, 0, 9e18, "SEED",
                         "Seed of the random numbers (default: the scenario's).", .group = "Runs"),
    DL_OPTION_ROW_TEXT("output", 'o', dl_settings, output, "FILE",
                       "CSV file of the results; - is standard output, without the table.",
                       .group = "Results"),
    DL_OPTION_ROW_TEXT(
        "html", 0, dl_settings, html, "FILE",
        "One page for any browser: tables, figures, timeline, what takes the time, predictions "
        "beside measurements, and controls that simulate other settings in the page. Without a "
        "scenario: these controls alone."),
    DL_OPTION_ROW_TEXT("json", 0, dl_settings, json, "FILE",
                       "Results and notes as JSON; - is standard output, without the table. "
                       "Replaces the CSV file unless --output or --html is given."),
    DL_OPTION_ROW_TEXT("left-out", 0, dl_settings, left_out, "FILE",
                       "Table of dlcal table --rows, whose errors of rows left out of the fit "
                       "are added to results and page."),
    DL_OPTION_ROW_TEXT("histogram", 0, dl_settings, histogram, "FILE",
                       "Staleness distribution of each worker, as CSV."),
    DL_OPTION_ROW_FLAG("notes", 0, dl_settings, notes,
                       "Print all notes; without it, the first ones and the number of the others."),
    DL_OPTION_ROW_FLAG("quiet", 'q', dl_settings, quiet, "Do not print the table."),

    DL_OPTION_ROW_FLAG("explain", 0, dl_settings, explain,
                       "Print the parts of a row's time, and the simulated gain of halving each "
                       "of the largest costs.",
                       .group = "One row of the results"),
    DL_OPTION_ROW_TEXT(
        "timeline", 0, dl_settings, timeline, "FILE",
        "Timeline of one simulated run as Chrome-trace JSON, for ui.perfetto.dev: workers, "
        "collectives, staleness, updates. Only the first steps, up to 2 MB; fewer workers if one "
        "step is larger."),
    DL_OPTION_ROW_TEXT("schedule", 0, dl_settings, schedule, "FILE",
                       "CSV file of the order of a run's updates, for dlprof train --schedule."),
    DL_OPTION_ROW_TEXT("draw-machine", 0, dl_settings, draw, "FILE",
                       "The machine's links as Graphviz text; with --check, nothing is simulated."),
    DL_OPTION_ROW_NUMBER(INT, "point", 0, dl_settings, point, 0, 1e9, "ROW",
                         "Row that the options above show (default: the last; for --explain, the "
                         "one with the most workers among those that differ from the best row in "
                         "workers only)."),

    DL_OPTION_ROW_TEXT(
        "without", 0, dl_settings, without, "LIST",
        "Costs to switch off, to see their effect: dispatch, external, input, copy, contention, "
        "average, update, sharing, memory, overlap, noise, slow, lock, barrier, wakeup; for "
        "models in stages or layouts also activations, micro_batches, imbalance, bubble.",
        .group = "What if"),
    DL_OPTION_ROW_TEXT("solve", 0, dl_settings, solve, "KEY",
                       "Find, for each point, the value of a key (SECTION.KEY, or KEY) at which a "
                       "column of the results reaches --target."),
    DL_OPTION_ROW_TEXT(
        "target", 0, dl_settings, target, "COLUMN=VALUE,...",
        "Values for --solve to reach, as in throughput_per_s=1000,2000 (dlsim --columns lists "
        "columns)."),

    DL_OPTION_ROW_KIND("advise", 0, dl_settings, advise, advice_kinds, "KIND",
                       "Search the number of workers (up to the scenario's largest), mode, "
                       "batch, interval, overlap, buckets and compression for the best within "
                       "limits; layout: search axes, micro-batch, recomputation, schedule and "
                       "sharding of a model on all GPUs for the highest throughput.",
                       .group = "Advice"),
    DL_OPTION_ROW_CHOICE(
        "for", 0, dl_settings, goal, dl_goal_names, "GOAL",
        "Goal of --advise: highest throughput, most samples per dollar, or the lowest price that "
        "meets --deadline."),
    DL_OPTION_ROW_NUMBER(INT, "max-batch", 0, dl_settings, max_batch, 0, 1e8, "SAMPLES",
                         "Largest batch of all workers together (default: the scenario's)."),
    DL_OPTION_ROW_NUMBER(DOUBLE, "max-staleness", 0, dl_settings, max_staleness, 0, 1e9, "UPDATES",
                         "Largest mean staleness of applied gradients (default: 0, or that of the "
                         "scenario's modes)."),
    DL_OPTION_ROW_NUMBER(INT, "max-interval", 0, dl_settings, max_interval, 0, DL_STEPS_MAX,
                         "STEPS",
                         "Largest number of local steps between two averages (default: the "
                         "scenario's)."),
    DL_OPTION_ROW_NUMBER(DOUBLE, "min-efficiency", 0, dl_settings, min_efficiency, 0, 1, "FRAC",
                         "Lowest parallel efficiency (speedup divided by workers), 0 to 1 "
                         "(default: any)."),
    DL_OPTION_ROW_NUMBER(DOUBLE, "deadline", 0, dl_settings, deadline_h, 0, 1e9, "HOURS",
                         "Longest time of the whole training (default: any)."),
    DL_OPTION_ROW_NUMBER(DOUBLE, "budget", 0, dl_settings, budget_usd, 0, 1e12, "USD",
                         "Highest price of the whole training (default: any)."),
    DL_OPTION_ROW_NUMBER(
        DOUBLE, "epochs", 0, dl_settings, epochs, 0, 1e9, "COUNT",
        "Length of the whole training in epochs; adds its time and price to the results."),
    DL_OPTION_ROW_NUMBER(
        INT, "samples", 0, dl_settings, samples, 0, 1e18, "COUNT",
        "Length of the whole training in samples; adds its time and price to the results."),
    DL_OPTION_ROW_NUMBER(
        DOUBLE, "tokens", 0, dl_settings, tokens, 0, 1e18, "COUNT",
        "Length of the whole training in tokens, as in 15e12; adds its time and price to the "
        "results."),
    DL_OPTION_ROW_NUMBER(INT, "max-points", 0, dl_settings, max_points, 1, 100000, "COUNT",
                         "Largest number of points that the search simulates."),

    DL_OPTION_ROW_NUMBER(
        INT, "threads", 0, dl_settings, threads, 0, 1024, "COUNT",
        "Number of threads that simulate (default: one per core); results do not depend on it.",
        .group = "Many points"),
    DL_OPTION_ROW_CHOICE("journal", 0, dl_settings, journal, dl_journal_modes, "MODE",
                         "Use of FILE.journal, which keeps the finished runs of a stopped sweep: "
                         "resume continues from it, restart discards it, off writes none."),
    DL_OPTION_ROW_FLAG("long", 0, dl_settings, lasts,
                       "Allow more than 100,000 points, or more than ten minutes as estimated from "
                       "the first seconds."),

    DL_OPTION_ROW_FLAG("check", 0, dl_settings, check,
                       "Validate the scenario, and list the missing costs.",
                       .group = "Without simulating"),
    DL_OPTION_ROW_FLAG("fits", 0, dl_settings, fits,
                       "Print the memory that a GPU of each stage needs, by kind, the largest "
                       "micro-batch that fits, and changes that would make others fit."),
    DL_OPTION_ROW_FLAG("keys", 0, dl_settings, keys,
                       "List the keys of scenarios, machine and cost files, or, with a section's "
                       "name in place of SCENARIO, of this section."),
    DL_OPTION_ROW_FLAG("markdown", 0, dl_settings, markdown,
                       "With --keys: print Markdown, as in docs/keys.md."),
    DL_OPTION_ROW_FLAG("columns", 0, dl_settings, columns,
                       "List the columns of results, as in docs/columns.md."),
    DL_OPTION_ROW_FLAG("machines", 0, dl_settings, machines,
                       "List the machines that --machine knows."),
    DL_OPTION_ROW_FLAG("workloads", 0, dl_settings, workloads,
                       "List the networks that --workload knows, and their keys."),
    DL_OPTION_ROW_TEXT("index", 0, dl_settings, index, "LIST",
                       "Write an index of many studies' pages to --html, and a table of all "
                       "measured rows to --output; LIST is a CSV file (group, title, file)."),

    DL_OPTION_ROW_TEXT("save", 0, dl_settings, save, "FILE",
                       "Scenario with the command line's options applied; with --advise, the "
                       "advised scenario.",
                       .group = "Files for later runs"),
    DL_OPTION_ROW_TEXT("save-costs", 0, dl_settings, save_costs, "FILE",
                       "Cost file of the scenario, for instance of --workload, for editing."),
    DL_OPTION_ROW_TEXT("save-machine", 0, dl_settings, save_machine, "FILE",
                       "Machine file of --machine, also if given by name, for editing."),
};

enum { OWN_OPTIONS = DL_LENGTH(own_options) };

static bool complete(FILE *out, const char *option, const char *typed)
{
    if (strcmp(option, "solve") == 0) {
        dl_solve_complete(out, typed);
    } else if (strcmp(option, "without") == 0) {
        dl_without_complete(out, typed);
    } else {
        return dl_scenario_complete(out, option, typed);
    }
    return true;
}

dl_status dl_settings_parse(dl_settings *set, int argc, char **argv, dl_text_list *positional,
                            dl_options_action *action, dl_error *err)
{
    *set = (dl_settings){
        .output = dl_default_output, .seed = -1, .max_staleness = -1, .max_points = 400};
    dl_option options[DL_SCENARIO_OPTIONS_ALL + DL_LENGTH(own_options)];
    dl_scenario_options(options, &set->command);
    dl_options_bind(options + DL_SCENARIO_OPTIONS_ALL, own_options, DL_LENGTH(own_options), set);
    const dl_command command = {
        .word = dl_scenario_option_word,
        .program = "dlsim",
        .positional = "[SCENARIO]",
        .summary = "Simulate data-parallel training as described by SCENARIO (an INI file), by "
                   "options equivalent to its keys, or by both, as in dlsim --workload gpt2 "
                   "--machine 8xh100 --batch-per-worker 8. Results are a table, and a file with a "
                   "row for each combination of the lists' values.",
        .options = options,
        .option_count = DL_LENGTH(options),
        .positional_max = 1,
        .manual = &manual,
        .complete = complete,
    };
    return dl_options_parse(&command, argc, argv, positional, action, err);
}

const char *dl_settings_output(const dl_settings *set)
{
    if (set->output != dl_default_output) return set->output;
    return set->advise ? default_advice : set->solve != NULL ? default_solved : set->output;
}

const char *dl_settings_replaced(const dl_settings *set)
{
    return set->replaces ? " (replacing the old one; -o FILE keeps both)" : "";
}

bool dl_settings_json_to_stdout(const dl_settings *set)
{
    return set->json != NULL && strcmp(set->json, "-") == 0;
}

int dl_settings_threads(const dl_settings *set)
{
    return set->threads > 0 ? (int)set->threads : set->cluster->cpu_count;
}
