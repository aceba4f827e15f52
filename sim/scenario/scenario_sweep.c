/* Lists of swept values. */
#include "sim/scenario/scenario_parts.h"

#include <stdlib.h>

#include "common/alloc.h"
#include "common/units.h"

dl_status dl_sweep_number(const char *text, const dl_key *key, double *value, dl_error *err)
{
    int64_t number = 0;
    dl_status status = dl_parse_int(text, (int64_t)key->low, (int64_t)key->high, &number, err);
    if (status == DL_OK) *value = (double)number;
    return status;
}

static bool contains(const dl_sweep_list *list, double value)
{
    for (size_t i = 0; i < list->count; i++) {
        if (list->values[i] == value) return true;
    }
    return false;
}

static dl_status read_items(dl_sweep_list *list, const dl_ini *ini, const dl_key *key,
                            dl_sweep_item_fn item, dl_error *err)
{
    char **items = NULL;
    size_t count = 0;
    dl_status status = dl_ini_split(ini, list->entry, &items, &count, err);
    if (status != DL_OK) return status;
    list->values = dl_calloc(count, sizeof *list->values, "swept values");
    for (size_t i = 0; i < count && status == DL_OK; i++) {
        dl_error inner = {0};
        double value = 0;
        status = item(items[i], key, &value, &inner);
        if (status == DL_OK && contains(list, value)) {
            status = dl_error_set(&inner, DL_ERR_RANGE, "'%s' stands twice", items[i]);
        }
        if (status != DL_OK) dl_ini_error(ini, list->entry, status, err, "%s", inner.text);
        list->values[list->count++] = value;
    }
    dl_ini_free_list(items, count);
    return status;
}

dl_status dl_sweep_list_read(dl_sweep_list *list, const dl_ini *ini, const dl_key *key,
                             dl_sweep_item_fn item, const double *fallback, dl_error *err)
{
    list->entry = dl_ini_find(ini, key->section, key->name);
    if (list->entry != NULL) return read_items(list, ini, key, item, err);
    if (fallback == NULL) {
        return dl_error_set_at(err, DL_ERR_DATA, ini->path, 0, "[%s] %s is missing", key->section,
                               key->name);
    }
    list->values = dl_calloc(1, sizeof *list->values, "swept values");
    list->values[0] = *fallback;
    list->count = 1;
    return DL_OK;
}

void dl_sweep_lists_free(dl_sweep_lists *lists)
{
    free(lists->cores.values);
    free(lists->workers.values);
    free(lists->batch.values);
    free(lists->mode.values);
    for (int o = 0; o < DL_SYNC_SWEPT; o++)
        free(lists->option[o].values);
    *lists = (dl_sweep_lists){0};
}
