#include "sim/scenario/known_gpus.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/csv.h"
#include "common/install.h"
#include "common/names.h"
#include "sim/scenario/scaling.h"

static int is_machine(const struct dirent *entry)
{
    return dl_ends_with(entry->d_name, ".ini");
}

/* Takes the file's GPU with the longest name contained in `device`, if longer than *length. */
static void look_into(const char *path, const char *device, dl_gpu_model *model, size_t *length)
{
    dl_machine machine = {0};
    dl_error ignored = {0};
    if (dl_machine_read(&machine, path, &ignored) != DL_OK) return;
    for (int m = 0; m < machine.model_count; m++) {
        dl_gpu_model *found = &machine.models[m];
        if (strlen(found->name) <= *length || !dl_scaling_is_model(device, found->name)) continue;
        *length = strlen(found->name);
        free(model->name);
        *model = *found;
        model->name = dl_strdup(found->name);
    }
    dl_machine_free(&machine);
}

/* The same in a table of data sheets. */
static void look_into_table(const char *path, const char *device, dl_gpu_model *model,
                            size_t *length)
{
    dl_csv table = {0};
    dl_error ignored = {0};
    if (dl_csv_read(&table, path, &ignored) != DL_OK) return;
    const int name = dl_csv_column(&table, "name"), flop = dl_csv_column(&table, "fp32");
    const int memory = dl_csv_column(&table, "memory_rate");
    for (size_t r = 0; r < table.rows && name >= 0 && flop >= 0 && memory >= 0; r++) {
        const char *gpu = dl_csv_cell(&table, r, (size_t)name);
        dl_gpu_model found = {0};
        if (strlen(gpu) <= *length || !dl_scaling_is_model(device, gpu) ||
            dl_quantity_parse(dl_csv_cell(&table, r, (size_t)flop), DL_DIMENSION_FLOP_PER_S,
                              &found.fp32_flop_per_s, &ignored) != DL_OK ||
            dl_quantity_parse(dl_csv_cell(&table, r, (size_t)memory), DL_DIMENSION_BYTES_PER_S,
                              &found.memory_bytes_per_s, &ignored) != DL_OK) {
            continue;
        }
        *length = strlen(gpu);
        free(model->name);
        *model = found;
        model->name = dl_strdup(gpu);
    }
    dl_csv_free(&table);
}

bool dl_known_gpu(const char *device, dl_gpu_model *model)
{
    size_t length = 0;
    *model = (dl_gpu_model){0};
    char *folder = dl_share_path("scenarios/machines");
    char *sheets = dl_format("%s/gpus.csv", folder);
    look_into_table(sheets, device, model, &length);
    free(sheets);
    struct dirent **entries = NULL;
    const int count = scandir(folder, &entries, is_machine, alphasort);
    for (int i = 0; i < count; i++) {
        char *path = dl_format("%s/%s", folder, entries[i]->d_name);
        look_into(path, device, model, &length);
        free(path);
        free(entries[i]);
    }
    free(entries);
    free(folder);
    return length > 0;
}
