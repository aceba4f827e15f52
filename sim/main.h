/* Shared by the sources of dlsim's main program: the command line, its inputs, and its searches
 * (main_search.c). */
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

/* Kinds of search of --advise. */
enum { ADVISE_SETTINGS = 1, ADVISE_LAYOUT };

typedef struct dl_settings {
    bool replaces; /* the results go to the default name, which is an existing file */
    bool workloads;
    const char *save_costs, *save_machine;
    const char *output, *timeline, *schedule, *histogram, *without, *draw;
    const char *html, *index, *left_out, *json;
    int64_t threads, seed, point; /* seed -1: the scenario's; point 0: the last */
    bool check, fits, quiet, keys, columns, markdown, machines, explain, notes;
    const char *save;
    const char *solve, *target;
    int advise; /* one of advice_kinds; 0: none */
    int goal;
    /* For the advice; if not given, max_staleness is -1, the others 0. */
    double max_staleness, min_efficiency, deadline_h, budget_usd, epochs, tokens;
    int64_t max_batch, max_interval, samples, max_points;
    dl_scenario_command command;
    bool lasts; /* --long */
    dl_pace *pace;
    int journal;
    dl_cluster *cluster;
} dl_settings;

/* All inputs of the simulation. */
typedef struct dl_inputs {
    dl_study study;
    dl_measured *measured;
} dl_inputs;

extern const char dl_default_output[]; /* of --output, unless it is a search's */

/* The file of the results; NULL: none. */
const char *dl_settings_output(const dl_settings *set);

/* A text to print after that file's name if the file had a default name and replaced an older
 * one. */
const char *dl_settings_replaced(const dl_settings *set);

bool dl_settings_json_to_stdout(const dl_settings *set);

/* Number of simulating threads, >= 1. */
int dl_settings_threads(const dl_settings *set);

/* Writes and prints the results of a sweep of `in` according to the options. */
dl_status dl_inputs_write(const dl_inputs *in, const dl_sweep *sweep, const dl_settings *set,
                          dl_error *err);

/* DL_ERR_USAGE for options that do not apply with --advise or --solve, or apply only with them. */
dl_status dl_settings_check_search(const dl_settings *set, dl_error *err);

/* Samples of the whole training by --samples, --tokens, --epochs or the study's target; NaN: not
 * given. */
dl_status dl_settings_samples(const dl_settings *set, const dl_study *study, double *samples,
                              dl_error *err);

/* --advise: searches for the best settings, layout, or split between generators and trainer, and
 * writes and prints the result. */
dl_status dl_inputs_advise(const dl_inputs *in, const dl_settings *set, dl_error *err);

/* --solve: finds the value of a key with which a column has the value of --target. */
dl_status dl_inputs_solve(const dl_inputs *in, const dl_settings *set, dl_error *err);

#endif
