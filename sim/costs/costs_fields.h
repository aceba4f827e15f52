/* The table of the single numbers of a cost file, shared by its reader and its writer. */
#ifndef DL_SIM_COSTS_FIELDS_H
#define DL_SIM_COSTS_FIELDS_H

#include <stdio.h>

#include "common/ini.h"
#include "sim/costs/costs.h"

#define DL_COSTS_SCHEMA 1

typedef enum dl_cost_range {
    DL_COST_ANY,
    DL_COST_NOT_NEGATIVE,
    DL_COST_POSITIVE,
    DL_COST_ONE_OR_MORE,
    DL_COST_AT_MOST_ONE /* and not negative */
} dl_cost_range;

/* One number: the only place where its name, place, range and need stand together. */
typedef struct dl_cost_field {
    const char *section, *key;
    size_t offset; /* of its dl_value in dl_costs */
    dl_cost_range range;
    unsigned need; /* dl_cost_need */
} dl_cost_field;

extern const dl_cost_field dl_cost_fields[];
extern const size_t dl_cost_field_count;

/* Reads the number k of a key "PREFIX_k". */
dl_status dl_costs_numbered_key(const dl_ini *ini, const dl_ini_entry *entry, const char *prefix,
                                int64_t low, int64_t high, int64_t *number,
                                dl_error *err) DL_MUST_CHECK;

/* Where the reading of a noise section stands: the last series and its last line; line 0 = before
 * the first. */
typedef struct dl_noise_reading {
    size_t series;
    int64_t line;
} dl_noise_reading;

/* Takes one entry of a section [noise ...]; *at is zero at first and kept from entry to entry. */
dl_status dl_costs_read_noise(dl_costs *costs, const dl_ini *ini, const dl_ini_entry *entry,
                              dl_noise_reading *at, dl_error *err) DL_MUST_CHECK;

/* The value that an entry of [layer NAME] sets. */
dl_value *dl_costs_layer_value(dl_costs *costs, const dl_ini_entry *entry);

/* DL_ERR_NAME if a layer has no operation, DL_ERR_DATA if the layers' parameters, where all are
 * told, are not those of [costs]. */
dl_status dl_costs_finish_layers(const dl_costs *costs, dl_error *err) DL_MUST_CHECK;

void dl_costs_free_layers(dl_costs *costs);

/* Takes one entry of [exchange_runs]. */
dl_status dl_costs_read_exchange_run(dl_costs *costs, const dl_ini *ini, const dl_ini_entry *entry,
                                     dl_error *err) DL_MUST_CHECK;

/* Takes one entry of [collective ...]; checks all when all are read; writes and releases them. */
dl_status dl_costs_read_collective(dl_costs *costs, const dl_ini *ini, const dl_ini_entry *entry,
                                   dl_error *err) DL_MUST_CHECK;
dl_status dl_costs_check_collectives(const dl_costs *costs, const dl_ini *ini,
                                     dl_error *err) DL_MUST_CHECK;
void dl_costs_write_collectives(FILE *out, const dl_costs *costs);
void dl_costs_free_collectives(dl_costs *costs);

/* Takes one entry of [gradients]. */
dl_status dl_costs_read_gradients(dl_costs *costs, const dl_ini *ini, const dl_ini_entry *entry,
                                  dl_error *err) DL_MUST_CHECK;
void dl_costs_write_gradients(FILE *out, const dl_costs *costs);

/* Finishes all series. DL_ERR_DATA if the last run of a set lacks a copy. */
dl_status dl_costs_finish_noise(dl_costs *costs, const dl_ini *ini, dl_error *err) DL_MUST_CHECK;

void dl_noise_set_free(dl_noise_set *set);

const dl_value *dl_cost_field_value(const dl_costs *costs, const dl_cost_field *field);

#endif
