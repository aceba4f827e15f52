/* Shared by the readers of the parts of a scenario and of studies. */
#ifndef DL_SIM_SCENARIO_INTERNAL_H
#define DL_SIM_SCENARIO_INTERNAL_H

#include "sim/costs/assume.h"
#include "sim/scenario/keys.h"

/* The values of one swept key. */
typedef struct dl_sweep_list {
    const dl_ini_entry *entry; /* NULL: the key has its default */
    double *values;            /* [count], owned */
    size_t count;
} dl_sweep_list;

/* All lists of a scenario. */
typedef struct dl_sweep_lists {
    dl_sweep_list cores, workers, batch, mode;
    dl_sweep_list option[DL_SYNC_SWEPT];
} dl_sweep_lists;

/* Reads one item of the key's list. */
typedef dl_status (*dl_sweep_item_fn)(const char *text, const dl_key *key, double *value,
                                      dl_error *err);

/* Reads the key as a list without repetitions. If the file lacks the key, the list is *fallback, or
 * DL_ERR_DATA if `fallback` is NULL. */
dl_status dl_sweep_list_read(dl_sweep_list *list, const dl_ini *ini, const dl_key *key,
                             dl_sweep_item_fn item, const double *fallback,
                             dl_error *err) DL_MUST_CHECK;

/* Reads an item that is a whole number in the key's range. */
dl_status dl_sweep_number(const char *text, const dl_key *key, double *value,
                          dl_error *err) DL_MUST_CHECK;

void dl_sweep_lists_free(dl_sweep_lists *lists);

/* Reads the network of [workload] model, which may be absent, with its adapters. Rejects unknown
 * networks, and a network together with scale_compute. */
dl_status dl_scenario_read_model(dl_scenario *scenario, const dl_ini *ini,
                                 dl_error *err) DL_MUST_CHECK;

/* Placeholder until the machine is read: one worker per GPU. */
#define DL_WORKERS_ALL 0

/* Placeholder: one core per worker of the point. */
#define DL_CORES_AS_WORKERS (-2)

/* Reads [machine], [exchange] of GPUs, and the lists of cores and workers. If workers come from
 * [machine] layout, [pipeline] gpus or [generators], their list is 1 until the readers of these
 * replace it. */
dl_status dl_scenario_read_workers(dl_scenario *scenario, const dl_ini *ini, dl_sweep_lists *lists,
                                   dl_error *err) DL_MUST_CHECK;

/* Reads and checks [generators], if given, and its file of lengths. Call after reading
 * [machine]. */
dl_status dl_scenario_read_generators(dl_scenario *scenario, const dl_ini *ini,
                                      dl_error *err) DL_MUST_CHECK;

/* Turns the points into those of the trainer beside [generators]: with its GPUs, and as many
 * micro-batches as the tokens of an update fill. Call after all other readers of points. */
dl_status dl_scenario_take_trainer(dl_scenario *scenario, const dl_ini *ini, dl_sweep_lists *all,
                                   dl_error *err) DL_MUST_CHECK;

/* Sets the default numbers of updates of a run with [generators]. */
void dl_scenario_set_updates(dl_scenario *scenario, const dl_ini *ini);

/* Reads [noise] slow and the lists of [failures], and checks the other keys of [failures]. */
dl_status dl_scenario_read_failures(dl_scenario *scenario, const dl_ini *ini,
                                    const dl_sweep_list *workers, dl_error *err) DL_MUST_CHECK;

/* Reads [sync]: the modes and their options. An option that none of the modes takes is an error.
 * Call after reading [machine]. */
dl_status dl_scenario_read_sync(dl_scenario *scenario, const dl_ini *ini, dl_sweep_lists *lists,
                                dl_error *err) DL_MUST_CHECK;

/* Prints the axes, such as "tp=", that complete the last axis of a layout (dl_complete_word). */
void dl_scenario_layout_complete(FILE *out, const char *typed, size_t kept);

/* Returns the value that [machine] layout implies for `key`: "parameters" for sharded if it has
 * fsdp; "2" for stages, as some layout of the list may have stages; else NULL. */
const char *dl_scenario_layout_says(const dl_ini *ini, const char *key);

/* Returns why the schedule cannot have this number of micro-batches on these stages, or NULL. */
const char *dl_schedule_refuses(dl_schedule schedule, int64_t micro_batches, int stages);

/* Reads [machine] layout and [pipeline]: workers with several GPUs. Sets the list of workers if
 * [pipeline] gpus or the layout determines their number. */
dl_status dl_scenario_read_layout(dl_scenario *scenario, const dl_ini *ini, dl_sweep_lists *lists,
                                  dl_error *err) DL_MUST_CHECK;

/* Explains a word of other programs for which no key exists here; NULL: the word is unknown or
 * names a key. */
const char *dl_scenario_word_says(const char *word);

/* Before --mode=LIST sets the modes: removes the keys of [sync] that only the text's own modes
 * take, and the keys that words for the list's modes set. */
void dl_scenario_leave_modes(char **text, const char *list);

/* Removes the keys of [exchange] that modes of the file `path`, if it can be read as it is, take
 * and those of the list do not. Call before options set keys, which are then refused, not
 * removed. */
void dl_scenario_leave_exchange(char **text, const char *path, const char *list);

/* Returns the first word of a list with commas, trimmed, and advances *list past it; NULL if *list
 * is NULL, which it is after the last word. */
char *dl_next_word(const char **list);

/* Whether points of the scenario, which has GPUs, could have the key of [exchange] in mode
 * dl_modes[mode]. */
bool dl_scenario_takes(const dl_scenario *scenario, const dl_key *key, int mode);

/* Rejects a layout that does not divide the scenario's model, with the errors of
 * dl_scenario_network. */
dl_status dl_scenario_check_network(const dl_scenario *scenario, dl_error *err) DL_MUST_CHECK;

/* Adds the points of all combinations of the swept values. */
dl_status dl_scenario_add_points(dl_scenario *scenario, const dl_ini *ini,
                                 const dl_sweep_lists *lists, dl_error *err) DL_MUST_CHECK;

/* Returns the key that sets absences, either their list or a random rate; NULL: none. */
const dl_ini_entry *dl_scenario_absence_entry(const dl_ini *ini);

/* Reads a scenario from the entries of a file. */
dl_status dl_scenario_read_ini(dl_scenario *scenario, const dl_ini *ini,
                               dl_error *err) DL_MUST_CHECK;

#endif
