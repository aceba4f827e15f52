/* Shared by the cost file's keys (costs_keys.c), its reader (costs_file.c), its writer
 * (costs_write.c) and queries of costs (costs.c). */
#ifndef DL_SIM_COSTS_INTERNAL_H
#define DL_SIM_COSTS_INTERNAL_H

#include <stdio.h>

#include "common/ini.h"
#include "sim/costs/costs.h"

#define DL_COSTS_SCHEMA 1 /* schema of the files read and written */

/* The struct that holds a key's number. */
typedef enum dl_cost_owner {
    DL_COST_HEAD,   /* [costs]: a member of dl_costs, read by common/keys.h */
    DL_COST_SINGLE, /* dl_costs: a dl_value at the row's offset */
    DL_COST_OP,     /* dl_op_cost: a dl_value at the row's offset */
    DL_COST_LAYER,  /* dl_layer_cost: a dl_value at the row's offset */
    DL_COST_TRACE,  /* dl_cost_trace */
    DL_COST_SERIES  /* read by separate code */
} dl_cost_owner;

const dl_value *dl_cost_single_of(const dl_costs *costs, const dl_key *key);

/* Writes the name of an exchange's section, "[collective allreduce 8]" or "[roundtrip 4]", to
 * text[bytes]; returns text. */
const char *dl_costs_section_text(char *text, size_t bytes, const dl_collective_cost *cost);

#endif
