/* What the sources of the cost file's reader and writer share. */
#ifndef DL_SIM_COSTS_FIELDS_H
#define DL_SIM_COSTS_FIELDS_H

#include <stdio.h>

#include "common/keys.h"
#include "sim/costs/costs.h"

#define DL_COSTS_SCHEMA 1

/* Which part of the costs keeps a key's number. */
typedef enum dl_cost_owner {
    DL_COST_HEAD,   /* [costs]: dl_costs, as common/keys.h reads it */
    DL_COST_SINGLE, /* dl_costs: a dl_value at the row's offset */
    DL_COST_OP,     /* dl_op_cost, likewise */
    DL_COST_LAYER,  /* dl_layer_cost, likewise */
    DL_COST_SERIES  /* read by code of its own */
} dl_cost_owner;

/* The value of a row of dl_cost_keys; NULL if it is none of the single numbers. */
dl_value *dl_cost_single(dl_costs *costs, const dl_key *key);
const dl_value *dl_cost_single_of(const dl_costs *costs, const dl_key *key);

/* Reads the entry's value with the unit and range of its row. */
dl_status dl_costs_read_value(const dl_ini *ini, const dl_ini_entry *entry, dl_value *value,
                              dl_error *err) DL_MUST_CHECK;

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

/* The layer of an entry of [layer NAME]; a new one at its first entry. */
dl_layer_cost *dl_costs_layer(dl_costs *costs, const dl_ini_entry *entry);

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

#endif
