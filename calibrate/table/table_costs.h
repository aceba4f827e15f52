/* The costs of a cost file that a table is to tell: those that it lacks for a run, or those that a
 * user names. */
#ifndef DL_CALIBRATE_TABLE_COSTS_H
#define DL_CALIBRATE_TABLE_COSTS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/status.h"
#include "sim/costs/costs.h"
#include "sim/scenario/scenario.h"

#define DL_TABLE_COSTS_MAX 16

typedef struct dl_table_cost {
    char *name;      /* "[dispatch] serial_ns" */
    dl_value *value; /* in the costs */
    dl_value *rest;  /* NULL, or of the backward pass; then `value` is of the forward pass */
    bool was_known;  /* before; its value is then where the search begins */
} dl_table_cost;

/* Owns the names; zero before use, release with dl_table_costs_free. */
typedef struct dl_table_costs {
    dl_table_cost items[DL_TABLE_COSTS_MAX];
    size_t count;
} dl_table_costs;

/* Part of the time that a forward pass takes if no more is known: the backward pass multiplies twice
 * as often, for the gradients of inputs and of weights. */
#define DL_TABLE_FORWARD_FRAC (1.0 / 3)

/* Lists the costs that the scenario's points need and `costs` lack. If they have no operation,
 * [op network.forward] and [op network.backward] are added to `costs`, and listed as one:
 * "[op network.*] fixed_ns" is the sum, split by DL_TABLE_FORWARD_FRAC. `costs` must stay where they are as long as the
 * list is used. DL_ERR_DATA: none is missing, or one that no table tells (parameter_bytes, noise).
 */
dl_status dl_table_costs_missing(dl_table_costs *list, const dl_scenario *scenario, dl_costs *costs,
                                 dl_error *err) DL_MUST_CHECK;

/* Lists those of "serial_ns, [op a.forward] fixed_ns, update.latency_ns": [section] key,
 * section.key, or a key that only one section has. An operation that is not there yet is added.
 * DL_ERR_USAGE: an unknown, ambiguous or repeated name; more than DL_TABLE_COSTS_MAX. DL_ERR_DATA:
 * the points need another one that is missing. */
dl_status dl_table_costs_named(dl_table_costs *list, const char *names, const dl_scenario *scenario,
                               dl_costs *costs, dl_error *err) DL_MUST_CHECK;

/* Puts the value of one of the list into the costs. */
void dl_table_cost_set(const dl_table_cost *cost, const dl_value *value);

void dl_table_costs_free(dl_table_costs *list);

#endif
