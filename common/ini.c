#include "common/ini.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/file.h"
#include "common/names.h"
#include "common/sort.h"
#include "common/units.h"

static const char byte_order_mark[] = "\xef\xbb\xbf"; /* UTF-8 */
enum { MARK_BYTES = 3 };

static char *skip_blanks(char *text)
{
    return text + strspn(text, " \t");
}

/* Returns the length of the text before a comment, which starts with ';' after a blank. */
static size_t comment_start(const char *text)
{
    size_t i = 0;
    while (text[i] != '\0' && !(text[i] == ';' && i > 0 && isblank((unsigned char)text[i - 1])))
        i++;
    return i;
}

/* Reads "name] ..."; returns an error text, or NULL. */
static const char *take_section(dl_ini *ini, char *text, int line)
{
    const size_t bytes = strcspn(text, "]");
    if (comment_start(text) < bytes) return "expected ']' before the comment";
    if (text[bytes] != ']') return "expected ']' after the section name";
    if (bytes == 0) return "empty section name";
    const char *rest = skip_blanks(text + bytes + 1);
    if (*rest != '\0' && *rest != ';') return "unexpected text after ']'";
    DL_APPEND(ini->sections, ini->section_count, "INI sections") =
        (dl_ini_section){.name = dl_strndup(text, bytes), .line = line};
    return NULL;
}

/* Reads "key = value ; comment"; returns an error text, or NULL. */
static const char *take_entry(dl_ini *ini, char *text, int line)
{
    const size_t bytes = strcspn(text, "=:");
    if (text[bytes] != '=' || comment_start(text) < bytes) return "expected key = value";
    if (bytes == 0) return "empty key";
    const char *value = text + bytes + 1;
    DL_APPEND(ini->entries, ini->count, "INI entries") = (dl_ini_entry){
        .section = ini->section_count > 0 ? ini->sections[ini->section_count - 1].name : "",
        .key = dl_strndup_trimmed(text, bytes),
        .value = dl_strndup_trimmed(value, comment_start(value)),
        .line = line};
    return NULL;
}

/* Reads a line of text[bytes], followed by a writable byte; returns an error text, or NULL. */
static const char *take_line(dl_ini *ini, char *text, size_t bytes, int line)
{
    if (bytes > 0 && text[bytes - 1] == '\r') bytes--;
    for (size_t i = 0; i < bytes; i++) {
        if (iscntrl((unsigned char)text[i]) && text[i] != '\t') {
            return "control character in the line";
        }
    }
    text[bytes] = '\0';
    text = skip_blanks(text);
    if (*text == '\0' || *text == ';' || *text == '#') return NULL;
    if (strncmp(text, byte_order_mark, MARK_BYTES) == 0) {
        return "a byte-order mark that does not start the file";
    }
    return *text == '[' ? take_section(ini, text + 1, line) : take_entry(ini, text, line);
}

/* Orders by section, key, line. */
DL_ORDER_OF_POINTERS(compare_entries, dl_ini_entry, DL_BY_TEXT(section), DL_BY_TEXT(key),
                     DL_BY(line));

/* Fails for the first line that repeats a key. Sorts pointers to the entries: O(n log n). */
static dl_status check_duplicates(const dl_ini *ini, dl_error *err)
{
    DL_AUTOFREE const dl_ini_entry **sorted = dl_calloc(ini->count, sizeof *sorted, "INI entries");
    for (size_t i = 0; i < ini->count; i++)
        sorted[i] = &ini->entries[i];
    qsort(sorted, ini->count, sizeof *sorted, compare_entries);
    const dl_ini_entry *again = NULL, *before = NULL;
    for (size_t i = 1; i < ini->count; i++) {
        const dl_ini_entry *a = sorted[i - 1], *b = sorted[i];
        if (strcmp(a->section, b->section) != 0 || strcmp(a->key, b->key) != 0) continue;
        if (again == NULL || b->line < again->line) {
            again = b;
            before = a;
        }
    }
    if (again == NULL) return DL_OK;
    return dl_ini_error(ini, again, DL_ERR_PARSE, err, "the key is given already in line %d",
                        before->line);
}

dl_status dl_ini_read_text(dl_ini *ini, const char *name, const char *text, size_t bytes,
                           dl_error *err)
{
    dl_ini read = {.path = dl_strdup(name)};
    char *copy = dl_calloc(bytes + 1, 1, "INI file"), *end = copy + bytes;
    if (bytes > 0) memcpy(copy, text, bytes);
    char *at = copy;
    if (strncmp(at, byte_order_mark, MARK_BYTES) == 0) at += MARK_BYTES;
    dl_status status = DL_OK;
    for (int line = 1; at < end && status == DL_OK; line++) {
        char *feed = memchr(at, '\n', (size_t)(end - at));
        char *stop = feed != NULL ? feed : end;
        const char *fault = take_line(&read, at, (size_t)(stop - at), line);
        if (fault != NULL) status = dl_error_set_at(err, DL_ERR_PARSE, name, line, "%s", fault);
        at = feed != NULL ? feed + 1 : end;
    }
    free(copy);
    if (status == DL_OK) status = check_duplicates(&read, err);
    if (status != DL_OK) {
        dl_ini_free(&read);
        return status;
    }
    *ini = read;
    return DL_OK;
}

dl_status dl_ini_read(dl_ini *ini, const char *path, dl_error *err)
{
    DL_AUTOFREE char *text = NULL;
    size_t bytes;
    dl_status status = dl_file_read(path, &text, &bytes, err);
    if (status != DL_OK) return status;
    return dl_ini_read_text(ini, path, text, bytes, err);
}

void dl_ini_free(dl_ini *ini)
{
    for (size_t i = 0; i < ini->count; i++) {
        free(ini->entries[i].key);
        free(ini->entries[i].value);
    }
    for (size_t i = 0; i < ini->section_count; i++)
        free(ini->sections[i].name);
    free(ini->entries);
    free(ini->sections);
    free(ini->path);
    *ini = (dl_ini){0};
}

int dl_ini_section_line(const dl_ini *ini, const char *name)
{
    for (size_t i = 0; i < ini->section_count; i++) {
        if (strcmp(ini->sections[i].name, name) == 0) return ini->sections[i].line;
    }
    return 0;
}

const dl_ini_entry *dl_ini_find(const dl_ini *ini, const char *section, const char *key)
{
    for (size_t i = 0; i < ini->count; i++) {
        const dl_ini_entry *entry = &ini->entries[i];
        if (strcmp(entry->key, key) == 0 && strcmp(entry->section, section) == 0) return entry;
    }
    return NULL;
}

dl_status dl_ini_error(const dl_ini *ini, const dl_ini_entry *entry, dl_status code, dl_error *err,
                       const char *format, ...)
{
    char text[DL_ERROR_TEXT_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (entry == NULL) return dl_error_set_at(err, code, ini->path, 0, "%s", text);
    return dl_error_set_at(err, code, ini->path, entry->line, "[%s] %s = %s: %s", entry->section,
                           entry->key, entry->value, text);
}

static dl_status missing_key(const dl_ini *ini, const char *section, const char *key, dl_error *err)
{
    return dl_error_set_at(err, DL_ERR_DATA, ini->path, 0, "[%s] %s is missing", section, key);
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
        list[i] = dl_strndup_trimmed(start, bytes);
        start += bytes + 1; /* may point past the end after the last item, where it is not read */
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

dl_status dl_ini_each(const dl_ini *ini, const dl_ini_entry *entry, dl_ini_item_fn take, void *user,
                      dl_error *err)
{
    char **items = NULL;
    size_t count = 0;
    dl_status status = dl_ini_split(ini, entry, &items, &count, err);
    for (size_t i = 0; i < count && status == DL_OK; i++) {
        dl_error inner = {0};
        status = take(user, items[i], &inner);
        if (status != DL_OK) dl_ini_error(ini, entry, status, err, "%s", inner.text);
    }
    dl_ini_free_list(items, count);
    return status;
}

char *dl_ini_beside(const dl_ini *ini, const char *path)
{
    return dl_path_beside(ini->path, path);
}

/* --- the text of a file ----------------------------------------------------------------------- */

typedef struct span {
    const char *at;
    size_t bytes;
} span;

static span trimmed(span s)
{
    while (s.bytes > 0 && strchr(" \t\r\n", s.at[0]) != NULL)
        s.at++, s.bytes--;
    while (s.bytes > 0 && strchr(" \t\r\n", s.at[s.bytes - 1]) != NULL)
        s.bytes--;
    return s;
}

static bool is_text(span s, const char *text)
{
    return s.bytes == strlen(text) && strncmp(s.at, text, s.bytes) == 0;
}

/* Position of a key in a text, or where to insert it. */
typedef struct key_place {
    bool has_section, has_key;
    span line;  /* has_key: line without its end; else empty, at the position for a new line */
    span value; /* only with has_key */
} key_place;

static key_place find_key(const char *text, const char *section, const char *key)
{
    key_place found = {.line = {text + strlen(text), 0}};
    bool inside = false;
    for (const char *at = text; *at != '\0' && !found.has_key;) {
        const size_t bytes = strcspn(at, "\n");
        const char *next = at + bytes + (at[bytes] == '\n');
        const span line = trimmed((span){at, bytes});
        const char *equals = memchr(line.at, '=', line.bytes);
        if (line.bytes > 0 && line.at[0] == '[') {
            const char *end = memchr(line.at, ']', line.bytes);
            inside = end != NULL &&
                     is_text(trimmed((span){line.at + 1, (size_t)(end - line.at - 1)}), section);
            found.has_section |= inside;
        } else if (inside && equals != NULL && strchr(";#", line.at[0]) == NULL &&
                   is_text(trimmed((span){line.at, (size_t)(equals - line.at)}), key)) {
            found.has_key = true;
            found.line = line;
            span value = {equals + 1, (size_t)(line.at + line.bytes - equals - 1)};
            for (size_t i = 1; i < value.bytes; i++) {
                if (value.at[i] == ';' && strchr(" \t", value.at[i - 1])) value.bytes = i;
            }
            found.value = trimmed(value);
            return found;
        }
        if (inside && line.bytes > 0) found.line = (span){next, 0};
        at = next;
    }
    return found;
}

const char *dl_ini_text_line(const char *text, const char *section, const char *key)
{
    const key_place place = find_key(text, section, key);
    return place.has_key ? place.line.at : NULL;
}

char *dl_ini_text_value(const char *text, const char *section, const char *key)
{
    const key_place place = find_key(text, section, key);
    return place.has_key ? dl_strndup(place.value.at, place.value.bytes) : NULL;
}

void dl_ini_text_set(char **text, const char *section, const char *key, const char *value)
{
    const key_place place = find_key(*text, section, key);
    const int before = (int)(place.line.at - *text);
    const bool starts_line = before == 0 || place.line.at[-1] == '\n';
    DL_AUTOFREE char *header = place.has_section ? dl_strdup("") : dl_format("\n[%s]\n", section);
    char *changed =
        dl_format("%.*s%s%s%s = %s%s%s", before, *text, place.has_key || starts_line ? "" : "\n",
                  header, key, value, place.has_key ? "" : "\n", place.line.at + place.line.bytes);
    free(*text);
    *text = changed;
}

void dl_ini_text_remove(char **text, const char *section, const char *key)
{
    const key_place place = find_key(*text, section, key);
    if (!place.has_key) return;
    char *start = *text + (place.line.at - *text);
    while (start > *text && start[-1] != '\n')
        start--;
    const char *end = strchr(place.line.at, '\n');
    end = end != NULL ? end + 1 : place.line.at + strlen(place.line.at);
    memmove(start, end, strlen(end) + 1);
}
