/* Internal interface of dlsim's main program: command line (main_options.c), inputs, results
 * (main_results.c) and searches (main_search.c). */
#ifndef DL_SIM_MAIN_H
#define DL_SIM_MAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "common/cluster.h"
#include "common/status.h"
#include "sim/pace.h"
#include "sim/report/measured.h"
#include "sim/scenario/command.h"
#include "sim/scenario/study.h"
#include "sim/sweep.h"

/* Kinds of search for --advise. */
enum { ADVISE_SETTINGS = 1, ADVISE_LAYOUT };

typedef struct dl_settings {
    bool replaces; /* results go to the default file name, and that file exists */
    bool workloads;
    const char *save_costs, *save_machine;
    const char *output, *timeline, *schedule, *histogram, *without, *draw;
    const char *html, *index, *left_out, *json;
    int64_t threads, seed, point; /* threads 0: one per core; seed -1: the scenario's; point 0: the
                                   * last row, for --explain one that it chooses */
    bool check, fits, quiet, keys, columns, markdown, machines, explain, notes;
    const char *save;
    const char *solve, *target;
    int advise; /* kind of search; 0: none */
    int goal;
    /* Limits for --advise, and the length of training (epochs, tokens, samples). If not given,
     * max_staleness is -1, max_points 400, and the others are 0. */
    double max_staleness, min_efficiency, deadline_h, budget_usd, epochs, tokens;
    int64_t max_batch, max_interval, samples, max_points;
    dl_scenario_command command;
    bool lasts; /* set by --long */
    dl_pace *pace;
    int journal;
    dl_cluster *cluster;
} dl_settings;

/* All inputs of a simulation. */
typedef struct dl_inputs {
    dl_study study;
    dl_measured *measured;
} dl_inputs;

extern const char dl_default_output[]; /* default of --output, except for searches */

/* Sets *set to the command line's options, and to the defaults of options not given, like
 * dl_options_parse. The cluster is left NULL. */
dl_status dl_settings_parse(dl_settings *set, int argc, char **argv, dl_text_list *positional,
                            dl_options_action *action, dl_error *err) DL_MUST_CHECK;

/* Name of the results file; NULL: none. */
const char *dl_settings_output(const dl_settings *set);

/* Text to print after the name of the results file: says that it replaced an older file of the
 * default name; "" otherwise. */
const char *dl_settings_replaced(const dl_settings *set);

bool dl_settings_json_to_stdout(const dl_settings *set);

/* Number of simulating threads, >= 1. */
int dl_settings_threads(const dl_settings *set);

/* The variant of the row chosen by --point, by default the last one. */
const dl_variant *dl_inputs_chosen(const dl_inputs *in, const dl_settings *set);

/* DL_ERR_UNFIT if a timeline or schedule was requested for a row that was not simulated. */
dl_status dl_inputs_check_run(const dl_inputs *in, const dl_sweep *sweep, const dl_settings *set,
                              dl_error *err);

/* Writes and prints the results of a sweep of `in` as the options ask. */
dl_status dl_inputs_write(const dl_inputs *in, const dl_sweep *sweep, const dl_settings *set,
                          dl_error *err);

/* DL_ERR_USAGE for options that --advise, --solve or --fits exclude or that require one of them. */
dl_status dl_settings_check_search(const dl_settings *set, dl_error *err);

/* Sets *samples to the number of samples of the whole training, from --samples, --tokens, --epochs
 * or the study's target; NaN: not given. DL_ERR_USAGE if several options are given, or if the study
 * does not say how many samples an epoch or token count is. */
dl_status dl_settings_samples(const dl_settings *set, const dl_study *study, double *samples,
                              dl_error *err);

/* --advise: searches for the best settings, layout, or split between generators and trainer, and
 * writes and prints the result. */
dl_status dl_inputs_advise(const dl_inputs *in, const dl_settings *set, dl_error *err);

/* --solve: finds the value of a key at which a column reaches the value of --target. */
dl_status dl_inputs_solve(const dl_inputs *in, const dl_settings *set, dl_error *err);

#endif
