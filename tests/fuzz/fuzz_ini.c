#include "common/keys.h"
#include "tests/fuzz/fuzz_driver.h"

#include <string.h>

static const char scenario[] = "\xef\xbb\xbf; two GPUs\r\n"
                               "[scenario]\r\n"
                               "name = two 1080 Ti, VGG-19-BN\r\n"
                               "steps = 200   ; each\r\n"
                               "[machine]\n"
                               "workers = 1, 2, 4, 8\n";
static const char costs[] = "# costs\n"
                            "[op conv1.forward]\n"
                            "fixed_ns = 1234.5\n"
                            "  per_sample_ns=9.75e2\n"
                            "origin = measured\n"
                            "[empty]\n"
                            "[op fc.backward]\n"
                            "fixed_ns = 1\n";

size_t dl_fuzz_seeds(const dl_fuzz_seed **seeds)
{
    static const dl_fuzz_seed all[] = {{scenario, sizeof scenario - 1}, {costs, sizeof costs - 1}};
    *seeds = all;
    return sizeof all / sizeof all[0];
}

/* Every line number must exist in the file, and each key may occur only once. */
static void check_entries(const dl_ini *ini, size_t bytes)
{
    int line = 0;
    for (size_t i = 0; i < ini->count; i++) {
        const dl_ini_entry *entry = &ini->entries[i];
        DL_ASSERT(entry->line > line && (size_t)entry->line <= bytes, "line %d behind %d",
                  entry->line, line);
        line = entry->line;
        DL_ASSERT(entry->key[0] != '\0', "empty key in line %d", line);
        DL_ASSERT(dl_ini_find(ini, entry->section, entry->key) == entry, "'%s' twice", entry->key);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const dl_key rows[] = {{.section = "op *", .name = "*"},
                                  {.section = "machine", .name = "workers"},
                                  {.section = "machine", .name = "steps"}};
    static const dl_keys keys = {rows, sizeof rows / sizeof *rows, NULL, NULL};
    dl_error err = {0};
    dl_ini ini = {0};
    if (dl_ini_read_text(&ini, "fuzz", (const char *)data, bytes, &err) != DL_OK) {
        DL_ASSERT(err.code == DL_ERR_PARSE && err.line >= 1, "code %d, line %d: %s", (int)err.code,
                  err.line, err.text);
        return 0;
    }
    check_entries(&ini, bytes);
    if (dl_keys_check(&keys, &ini, &err) != DL_OK) {
        DL_ASSERT(err.code == DL_ERR_NAME && err.line >= 1, "%s", err.text);
    }
    for (size_t i = 0; i < ini.count; i++) {
        char **items;
        size_t count;
        if (dl_ini_split(&ini, &ini.entries[i], &items, &count, &err) == DL_OK) {
            dl_ini_free_list(items, count);
        }
    }
    dl_ini_free(&ini);
    return 0;
}
