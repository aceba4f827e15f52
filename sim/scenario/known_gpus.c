#include "sim/scenario/known_gpus.h"

#include <ctype.h>
#include <dirent.h>
#include <pthread.h>
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

/* --- the table --------------------------------------------------------------------------------- */

/* Name and rates of the known GPUs, read once. */
static dl_gpu_model *sheets;
static size_t sheet_count;

static void add_sheet(const char *name, dl_quantity flop_per_s, dl_quantity bytes_per_s)
{
    DL_APPEND(sheets, sheet_count, "GPUs") = (dl_gpu_model){
        .name = dl_strdup(name), .fp32_flop_per_s = flop_per_s, .memory_bytes_per_s = bytes_per_s};
}

static void add_table(const char *path)
{
    DL_SCOPED(dl_csv) table = {0};
    dl_error ignored = {0};
    if (dl_csv_read(&table, path, &ignored) != DL_OK) return;
    const int name = dl_csv_column(&table, "name"), flop = dl_csv_column(&table, "fp32");
    const int memory = dl_csv_column(&table, "memory_rate");
    for (size_t r = 0; r < table.rows && name >= 0 && flop >= 0 && memory >= 0; r++) {
        dl_quantity flop_per_s = {0}, bytes_per_s = {0};
        if (dl_quantity_parse(dl_csv_cell(&table, r, (size_t)flop), DL_DIMENSION_FLOP_PER_S,
                              &flop_per_s, &ignored) == DL_OK &&
            dl_quantity_parse(dl_csv_cell(&table, r, (size_t)memory), DL_DIMENSION_BYTES_PER_S,
                              &bytes_per_s, &ignored) == DL_OK)
            add_sheet(dl_csv_cell(&table, r, (size_t)name), flop_per_s, bytes_per_s);
    }
}

static void add_machine(const char *path)
{
    DL_SCOPED(dl_machine) machine = {0};
    dl_error ignored = {0};
    if (dl_machine_read(&machine, path, &ignored) != DL_OK) return;
    for (int m = 0; m < machine.model_count; m++) {
        const dl_gpu_model *model = &machine.models[m];
        add_sheet(model->name, model->fp32_flop_per_s, model->memory_bytes_per_s);
    }
}

static int is_machine(const struct dirent *entry)
{
    return dl_ends_with(entry->d_name, ".ini");
}

static void read_sheets(void)
{
    DL_AUTOFREE char *folder = dl_share_path("scenarios/machines");
    DL_AUTOFREE char *table = dl_format("%s/gpus.csv", folder);
    add_table(table);
    DL_AUTOFREE struct dirent **entries = NULL;
    const int count = scandir(folder, &entries, is_machine, alphasort);
    for (int i = 0; i < count; i++) {
        DL_AUTOFREE char *path = dl_format("%s/%s", folder, entries[i]->d_name);
        add_machine(path);
        free(entries[i]);
    }
}

bool dl_known_gpu(const char *device, dl_gpu_model *model)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const dl_gpu_model *found = NULL;
    (void)pthread_once(&once, read_sheets);
    for (size_t i = 0; i < sheet_count; i++) {
        const dl_gpu_model *sheet = &sheets[i];
        if ((found == NULL || strlen(sheet->name) > strlen(found->name)) &&
            dl_device_is_gpu(device, sheet->name))
            found = sheet;
    }
    *model = found != NULL ? *found : (dl_gpu_model){0};
    if (found != NULL) model->name = dl_strdup(found->name);
    return found != NULL;
}
