/* [gradients] of a cost file: how much of them is ready when. */
#include <stdlib.h>

#include "common/alloc.h"
#include "common/units.h"
#include "sim/costs/costs_fields.h"

static dl_status parse(const dl_ini *ini, const dl_ini_entry *entry, dl_gradients_ready *ready,
                       dl_error *err)
{
    char **items = NULL;
    size_t count = 0;
    dl_status status = dl_ini_split(ini, entry, &items, &count, err);
    if (status != DL_OK) return status;
    dl_error inner = {0};
    if (count != 2) {
        status = dl_ini_error(ini, entry, DL_ERR_PARSE, err,
                              "expected a share of the backward pass and the bytes so far");
    } else if ((status = dl_parse_double(items[0], 0, 1, &ready->share, &inner)) ||
               (status = dl_parse_double(items[1], 1, 1e18, &ready->bytes, &inner))) {
        dl_ini_error(ini, entry, status, err, "%s", inner.text);
    }
    dl_ini_free_list(items, count);
    return status;
}

dl_status dl_costs_read_gradients(dl_costs *costs, const dl_ini *ini, const dl_ini_entry *entry,
                                  dl_error *err)
{
    const size_t count = costs->gradient_count;
    const int64_t next = (int64_t)count + 1;
    int64_t number = 0;
    dl_gradients_ready ready = {0};
    dl_status status = dl_costs_numbered_key(ini, entry, "ready_", next, next, &number, err);
    if (status == DL_OK) status = parse(ini, entry, &ready, err);
    if (status != DL_OK) return status;
    if (count > 0 && (ready.share < costs->gradients[count - 1].share ||
                      ready.bytes <= costs->gradients[count - 1].bytes)) {
        return dl_ini_error(ini, entry, DL_ERR_DATA, err,
                            "less than in the line before: both numbers are sums");
    }
    costs->gradients =
        dl_realloc(costs->gradients, count + 1, sizeof *costs->gradients, "gradients");
    costs->gradients[count] = ready;
    costs->gradient_count++;
    return DL_OK;
}

void dl_costs_write_gradients(FILE *out, const dl_costs *costs)
{
    if (costs->gradient_count > 0) fprintf(out, "\n[gradients]\n");
    for (size_t i = 0; i < costs->gradient_count; i++) {
        fprintf(out, "ready_%zu = %.9g, %.12g\n", i + 1, costs->gradients[i].share,
                costs->gradients[i].bytes);
    }
}
