#include "sim/scenario/known_gpus.h"

#include <ctype.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/csv.h"
#include "common/install.h"
#include "common/names.h"

#define WORDS_MAX 16

/* Returns the letters and digits of text[bytes] in lower case, freed by the caller. */
static char *plain(const char *text, size_t bytes)
{
    char *copy = dl_strndup(text, bytes);
    size_t used = 0;
    for (size_t i = 0; i < bytes; i++) {
        if (isalnum((unsigned char)copy[i])) copy[used++] = (char)tolower((unsigned char)copy[i]);
    }
    copy[used] = '\0';
    return copy;
}

/* Splits the device up to its first comma into words[WORDS_MAX]; returns their number. */
static int split_words(const char *device, char **words)
{
    int count = 0;
    const char *c = device;
    while (*c != '\0' && *c != ',' && count < WORDS_MAX) {
        size_t bytes = 0;
        while (isalnum((unsigned char)c[bytes]))
            bytes++;
        if (bytes > 0) words[count++] = plain(c, bytes);
        c += bytes > 0 ? bytes : 1;
    }
    return count;
}

static bool makes_another(const char *word)
{
    return strcmp(word, "ti") == 0 || strcmp(word, "super") == 0;
}

/* Whether the first of words[count] together form the name, and the next one does not make it
 * another GPU (Ti, Super). */
static bool starts_with(char *const *words, int count, const char *name)
{
    int used = 0;
    while (used < count && *name != '\0') {
        const size_t bytes = strlen(words[used]);
        if (strncmp(name, words[used], bytes) != 0) return false;
        name += bytes;
        used++;
    }
    return *name == '\0' && (used == count || !makes_another(words[used]));
}

/* Whether some consecutive words of words[count] form this part of a name. */
static bool has_part(char *const *words, int count, const char *part, size_t bytes)
{
    DL_AUTOFREE char *name = plain(part, bytes);
    bool found = false;
    for (int w = 0; w < count; w++)
        found |= name[0] != '\0' && starts_with(words + w, count - w, name);
    return found;
}

bool dl_device_is_gpu(const char *device, const char *model)
{
    char *words[WORDS_MAX];
    const int count = split_words(device, words);
    bool found = true;
    for (const char *part = model; found && part != NULL;) {
        const size_t bytes = strcspn(part, "_");
        found = has_part(words, count, part, bytes);
        part = part[bytes] != '\0' ? part + bytes + 1 : NULL;
    }
    for (int w = 0; w < count; w++)
        free(words[w]);
    return found;
}

static int is_machine(const struct dirent *entry)
{
    return dl_ends_with(entry->d_name, ".ini");
}

/* Takes the file's GPU with the longest name contained in `device` if that is longer than
 * *length. */
static void look_into(const char *path, const char *device, dl_gpu_model *model, size_t *length)
{
    DL_AUTO(dl_machine_free) dl_machine machine = {0};
    dl_error ignored = {0};
    if (dl_machine_read(&machine, path, &ignored) != DL_OK) return;
    for (int m = 0; m < machine.model_count; m++) {
        dl_gpu_model *found = &machine.models[m];
        if (strlen(found->name) <= *length || !dl_device_is_gpu(device, found->name)) continue;
        *length = strlen(found->name);
        free(model->name);
        *model = *found;
        model->name = dl_strdup(found->name);
    }
}

/* Searches a table of data sheets like look_into. */
static void look_into_table(const char *path, const char *device, dl_gpu_model *model,
                            size_t *length)
{
    DL_AUTO(dl_csv_free) dl_csv table = {0};
    dl_error ignored = {0};
    if (dl_csv_read(&table, path, &ignored) != DL_OK) return;
    const int name = dl_csv_column(&table, "name"), flop = dl_csv_column(&table, "fp32");
    const int memory = dl_csv_column(&table, "memory_rate");
    for (size_t r = 0; r < table.rows && name >= 0 && flop >= 0 && memory >= 0; r++) {
        const char *gpu = dl_csv_cell(&table, r, (size_t)name);
        dl_gpu_model found = {0};
        if (strlen(gpu) <= *length || !dl_device_is_gpu(device, gpu) ||
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
}

bool dl_known_gpu(const char *device, dl_gpu_model *model)
{
    size_t length = 0;
    *model = (dl_gpu_model){0};
    DL_AUTOFREE char *folder = dl_share_path("scenarios/machines");
    DL_AUTOFREE char *sheets = dl_format("%s/gpus.csv", folder);
    look_into_table(sheets, device, model, &length);
    DL_AUTOFREE struct dirent **entries = NULL;
    const int count = scandir(folder, &entries, is_machine, alphasort);
    for (int i = 0; i < count; i++) {
        DL_AUTOFREE char *path = dl_format("%s/%s", folder, entries[i]->d_name);
        look_into(path, device, model, &length);
        free(entries[i]);
    }
    return length > 0;
}
