#include "sim/platform/placement.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/units.h"

/* Reads the number of workers of the next node, and advances *text past it. */
static dl_status next_node(const char **text, bool in_digits, int64_t most, int64_t *workers,
                           dl_error *err)
{
    const size_t length = in_digits ? 1 : strcspn(*text, "+");
    DL_AUTOFREE char *number = dl_strndup(*text, length);
    dl_status status = dl_parse_int(number, 1, most, workers, err);
    *text += length;
    if (**text == '+') ++*text;
    return status;
}

dl_status dl_placement_gpus(const char *text, const dl_machine *machine, int **gpus, int *count,
                            dl_error *err)
{
    const size_t length = strlen(text);
    if (length == 0 || strspn(text, "0123456789+") != length || text[length - 1] == '+') {
        return dl_error_set(err, DL_ERR_PARSE,
                            "expected the workers of each node, as 431 or 16+8, not '%s'", text);
    }
    const bool in_digits = strchr(text, '+') == NULL;
    int *all = dl_calloc((size_t)dl_machine_gpus(machine), sizeof *all, "GPUs of a placement");
    int found = 0;
    dl_status status = DL_OK;
    for (int node = 0; *text != '\0' && status == DL_OK; node++) {
        int64_t workers = 0;
        if (node == machine->nodes) {
            status = dl_error_set(err, DL_ERR_RANGE, "more nodes than the machine's %d", node);
            break;
        }
        status =
            next_node(&text, in_digits, dl_machine_node(machine, node)->gpu_count, &workers, err);
        for (int g = 0; g < workers && status == DL_OK; g++)
            all[found++] = dl_machine_gpus_before(machine, node) + g;
    }
    if (status == DL_OK) {
        *gpus = all;
        *count = found;
    } else {
        free(all);
    }
    return status;
}
