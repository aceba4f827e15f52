/* The table of the single numbers of a cost file, shared by its reader and its writer. */
#ifndef DL_SIM_COSTS_FIELDS_H
#define DL_SIM_COSTS_FIELDS_H

#include "sim/costs.h"

#define DL_COSTS_SCHEMA 1

typedef enum dl_cost_range { DL_COST_ANY, DL_COST_NOT_NEGATIVE, DL_COST_POSITIVE } dl_cost_range;

/* One number: the only place where its name, place, range and need stand together. */
typedef struct dl_cost_field {
    const char *section, *key;
    size_t offset; /* of its dl_value in dl_costs */
    dl_cost_range range;
    unsigned need; /* dl_cost_need */
} dl_cost_field;

extern const dl_cost_field dl_cost_fields[];
extern const size_t dl_cost_field_count;

const dl_value *dl_cost_field_value(const dl_costs *costs, const dl_cost_field *field);

#endif
