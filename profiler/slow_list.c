#include "profiler/slow_list.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/units.h"

#define FACTOR_MAX 1000.0

static dl_status parse_one(const char *text, int workers, double *factors, dl_error *err)
{
    const char *colon = strchr(text, ':');
    if (colon == NULL) {
        return dl_error_set(err, DL_ERR_USAGE, "--slow %s: expected WORKER:FACTOR, as in 1:2",
                            text);
    }
    dl_error why = {0};
    int64_t worker = 0;
    double factor = 0;
    char *number = dl_strndup(text, (size_t)(colon - text));
    dl_status status = dl_parse_int(number, 0, workers - 1, &worker, &why);
    if (status == DL_OK) status = dl_parse_double(colon + 1, 1, FACTOR_MAX, &factor, &why);
    free(number);
    if (status != DL_OK) return dl_error_set(err, DL_ERR_USAGE, "--slow %s: %s", text, why.text);
    if (factors[worker] > 0) {
        return dl_error_set(err, DL_ERR_USAGE, "--slow %s: that worker was slowed already", text);
    }
    factors[worker] = factor;
    return DL_OK;
}

dl_status dl_slow_list_parse(const dl_text_list *list, int workers, double **factors, dl_error *err)
{
    if (list->count == 0) {
        *factors = NULL;
        return DL_OK;
    }
    double *made = dl_calloc((size_t)workers, sizeof *made, "slow workers"); /* 0 = not named */
    for (size_t i = 0; i < list->count; i++) {
        const dl_status status = parse_one(list->items[i], workers, made, err);
        if (status == DL_OK) continue;
        free(made);
        return status;
    }
    for (int w = 0; w < workers; w++) {
        if (made[w] <= 0) made[w] = 1;
    }
    *factors = made;
    return DL_OK;
}
