/* Typed values of INI entries. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/ini.h"
#include "common/names.h"
#include "common/units.h"

static dl_status missing_key(const dl_ini *ini, const char *section, const char *key, dl_error *err)
{
    return dl_error_set_at(err, DL_ERR_DATA, ini->path, 0, "[%s] has no key '%s'", section, key);
}

dl_status dl_ini_get_double(const dl_ini *ini, const char *section, const char *key, double low,
                            double high, const double *fallback, double *out, dl_error *err)
{
    const dl_ini_entry *entry = dl_ini_find(ini, section, key);
    if (entry == NULL && fallback == NULL) return missing_key(ini, section, key, err);
    if (entry == NULL) {
        *out = *fallback;
        return DL_OK;
    }
    dl_error why = {0};
    dl_status status = dl_parse_double(entry->value, low, high, out, &why);
    return status == DL_OK ? DL_OK : dl_ini_error(ini, entry, status, err, "%s", why.text);
}

dl_status dl_ini_get_int(const dl_ini *ini, const char *section, const char *key, int64_t low,
                         int64_t high, const int64_t *fallback, int64_t *out, dl_error *err)
{
    const dl_ini_entry *entry = dl_ini_find(ini, section, key);
    if (entry == NULL && fallback == NULL) return missing_key(ini, section, key, err);
    if (entry == NULL) {
        *out = *fallback;
        return DL_OK;
    }
    dl_error why = {0};
    dl_status status = dl_parse_int(entry->value, low, high, out, &why);
    return status == DL_OK ? DL_OK : dl_ini_error(ini, entry, status, err, "%s", why.text);
}

dl_status dl_ini_get_string(const dl_ini *ini, const char *section, const char *key,
                            const char *fallback, const char **out, dl_error *err)
{
    const dl_ini_entry *entry = dl_ini_find(ini, section, key);
    if (entry == NULL && fallback == NULL) return missing_key(ini, section, key, err);
    *out = entry != NULL ? entry->value : fallback;
    return DL_OK;
}

dl_status dl_ini_get_choice(const dl_ini *ini, const char *section, const char *key,
                            const char *const *names, size_t count, const int *fallback, int *out,
                            dl_error *err)
{
    const dl_ini_entry *entry = dl_ini_find(ini, section, key);
    if (entry == NULL && fallback == NULL) return missing_key(ini, section, key, err);
    if (entry == NULL) {
        *out = *fallback;
        return DL_OK;
    }
    int index = dl_names_find(entry->value, names, count);
    if (index < 0) {
        char hint[256];
        dl_names_hint(hint, sizeof hint, entry->value, names, count);
        return dl_ini_error(ini, entry, DL_ERR_NAME, err, "unknown name%s", hint);
    }
    *out = index;
    return DL_OK;
}

/* A copy of text[bytes] without the blanks around it. */
static char *copy_trimmed(const char *text, size_t bytes)
{
    while (bytes > 0 && isblank((unsigned char)text[bytes - 1]))
        bytes--;
    while (bytes > 0 && isblank((unsigned char)*text)) {
        text++;
        bytes--;
    }
    return dl_strndup(text, bytes);
}

dl_status dl_ini_split(const dl_ini *ini, const dl_ini_entry *entry, char ***items, size_t *count,
                       dl_error *err)
{
    size_t found = 1;
    for (const char *c = entry->value; *c != '\0'; c++)
        found += *c == ',';
    char **list = dl_calloc(found, sizeof *list, "INI list");
    const char *start = entry->value;
    for (size_t i = 0; i < found; i++) {
        size_t bytes = strcspn(start, ",");
        list[i] = copy_trimmed(start, bytes);
        start += bytes + 1; /* past the end after the last one, and not read there */
        if (list[i][0] != '\0') continue;
        dl_ini_free_list(list, i + 1);
        return dl_ini_error(ini, entry, DL_ERR_PARSE, err, "item %zu of the list is empty", i + 1);
    }
    *items = list;
    *count = found;
    return DL_OK;
}

void dl_ini_free_list(char **items, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(items[i]);
    free(items);
}
