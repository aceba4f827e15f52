#include "common/ini.h"

#include <ctype.h>
#include <ini.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/file.h"
#include "common/names.h"

/* Sizes that inih was built with (ini.c: INI_MAX_LINE 200, MAX_SECTION 50): longer texts would be
 * cut without a word. */
enum { MOST_LINE_BYTES = 199, MOST_SECTION_BYTES = 49 };

static const char byte_order_mark[] = "\xef\xbb\xbf"; /* UTF-8 */
enum { MARK_BYTES = 3 };

/* The file while inih reads it: inih asks read_line for lines and gives entries to take_entry.
 * After the first error there are no more lines. */
typedef struct ini_source {
    dl_ini *ini;
    const char *next, *end; /* text still to be read */
    int line;               /* number of the last line given to inih */
    dl_status status;
    dl_error *err;
} ini_source;

static int is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static const char *skip_blanks(const char *text)
{
    while (is_blank(*text))
        text++;
    return text;
}

static void add_section(dl_ini *ini, const char *name, size_t bytes, int line)
{
    ini->sections =
        dl_realloc(ini->sections, ini->section_count + 1, sizeof *ini->sections, "INI sections");
    dl_ini_section *section = &ini->sections[ini->section_count++];
    section->name = dl_strndup(name, bytes);
    section->line = line;
}

/* What is wrong with the line "[section]..." (`text` starts behind '['), or NULL. */
static const char *section_fault(const char *text)
{
    size_t name_bytes = strcspn(text, "]");
    const char *rest = skip_blanks(text + name_bytes + (text[name_bytes] == ']'));
    if (text[name_bytes] != ']') return "expected ']' after the section name";
    if (name_bytes == 0) return "empty section name";
    if (name_bytes > MOST_SECTION_BYTES) return "section name is longer than 49 bytes";
    for (size_t i = 1; i < name_bytes; i++) {
        if (text[i] == ';' && is_blank(text[i - 1])) return "expected ']' before the comment";
    }
    return *rest == '\0' || *rest == ';' ? NULL : "unexpected text after ']'";
}

/* What is wrong with the line "key = value", or NULL. inih would take ':' for '=' too. */
static const char *entry_fault(const char *text)
{
    size_t key_bytes = strcspn(text, "=:");
    for (size_t i = 1; i < key_bytes; i++) {
        if (text[i] == ';' && is_blank(text[i - 1])) return "expected key = value";
    }
    if (text[key_bytes] != '=') return "expected key = value";
    return key_bytes == 0 ? "empty key" : NULL;
}

static dl_status fail_line(ini_source *source, const char *fault)
{
    source->status =
        dl_error_set_at(source->err, DL_ERR_PARSE, source->ini->path, source->line, "%s", fault);
    return source->status;
}

/* Checks a line, without its end and its blanks in front, for what inih would accept or drop
 * silently; keeps section lines. */
static dl_status check_line(ini_source *source, const char *text)
{
    const char *fault = NULL;
    if (strncmp(text, byte_order_mark, MARK_BYTES) == 0) {
        fault = "a byte-order mark that does not start the file"; /* inih would drop it */
    } else if (*text == '[') {
        fault = section_fault(text + 1);
        if (fault == NULL) {
            add_section(source->ini, text + 1, strcspn(text + 1, "]"), source->line);
        }
    } else if (*text != '\0' && *text != ';' && *text != '#') {
        fault = entry_fault(text);
    }
    return fault == NULL ? DL_OK : fail_line(source, fault);
}

/* inih's reader, as fgets: copies the next line, without its end, to line[size]. Blanks in front
 * are dropped, so that inih never sees what it would take for the continuation of a value. */
static char *read_line(char *line, int size, void *user)
{
    ini_source *source = user;
    if (source->status != DL_OK || source->next == source->end) return NULL;
    source->line++;
    size_t left = (size_t)(source->end - source->next);
    const char *newline = memchr(source->next, '\n', left);
    size_t bytes = newline != NULL ? (size_t)(newline - source->next) : left;
    const char *text = source->next;
    source->next += newline != NULL ? bytes + 1 : bytes;
    if (bytes > 0 && text[bytes - 1] == '\r') bytes--;
    if (bytes > MOST_LINE_BYTES || bytes >= (size_t)size) {
        fail_line(source, "line is longer than 199 bytes");
        return NULL;
    }
    for (size_t i = 0; i < bytes; i++) {
        if (iscntrl((unsigned char)text[i]) && text[i] != '\t') {
            fail_line(source, "control character in the line");
            return NULL;
        }
    }
    memcpy(line, text, bytes);
    line[bytes] = '\0';
    const char *start = skip_blanks(line);
    memmove(line, start, strlen(start) + 1);
    return check_line(source, line) == DL_OK ? line : NULL;
}

/* inih's handler. */
static int take_entry(void *user, const char *section, const char *key, const char *value)
{
    ini_source *source = user;
    dl_ini *ini = source->ini;
    /* Doubling at each power of two keeps the cost of growth linear. */
    if ((ini->count & (ini->count - 1)) == 0) {
        size_t room = ini->count == 0 ? 1 : 2 * ini->count;
        ini->entries = dl_realloc(ini->entries, room, sizeof *ini->entries, "INI entries");
    }
    ini->entries[ini->count++] = (dl_ini_entry){.section = dl_strdup(section),
                                                .key = dl_strdup(key),
                                                .value = dl_strdup(value),
                                                .line = source->line};
    return 1;
}

/* By section, key, line. */
static int compare_entries(const void *left, const void *right)
{
    const dl_ini_entry *a = *(const dl_ini_entry *const *)left;
    const dl_ini_entry *b = *(const dl_ini_entry *const *)right;
    int order = strcmp(a->section, b->section);
    if (order == 0) order = strcmp(a->key, b->key);
    return order != 0 ? order : (a->line > b->line) - (a->line < b->line);
}

/* Fails for the first line that gives a key again. Sorted, so that large files stay cheap. */
static dl_status check_duplicates(const dl_ini *ini, dl_error *err)
{
    const dl_ini_entry **sorted = dl_calloc(ini->count, sizeof *sorted, "INI entries");
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
    free(sorted);
    if (again == NULL) return DL_OK;
    return dl_ini_error(ini, again, DL_ERR_PARSE, err, "the key stands already in line %d",
                        before->line);
}

dl_status dl_ini_read_text(dl_ini *ini, const char *name, const char *text, size_t bytes,
                           dl_error *err)
{
    dl_ini read = {.path = dl_strdup(name)};
    ini_source source = {.ini = &read, .next = text, .end = text + bytes, .err = err};
    if (bytes >= MARK_BYTES && memcmp(text, byte_order_mark, MARK_BYTES) == 0) {
        source.next += MARK_BYTES;
    }
    int bad_line = ini_parse_stream(read_line, &source, take_entry, &source);
    dl_status status = source.status;
    if (status == DL_OK && bad_line != 0) { /* inih is stricter than check_line */
        status = dl_error_set_at(err, DL_ERR_PARSE, name, bad_line > 0 ? bad_line : 0,
                                 "expected [section] or key = value");
    }
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
    char *text;
    size_t bytes;
    dl_status status = dl_file_read(path, &text, &bytes, err);
    if (status != DL_OK) return status;
    status = dl_ini_read_text(ini, path, text, bytes, err);
    free(text);
    return status;
}

void dl_ini_free(dl_ini *ini)
{
    for (size_t i = 0; i < ini->count; i++) {
        free(ini->entries[i].section);
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

/* The schema of a section: its own name before a pattern ("op *"). NULL if none admits it. */
static const dl_ini_section_schema *find_schema(const char *name,
                                                const dl_ini_section_schema *schema, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(schema[i].section, name) == 0) return &schema[i];
    }
    for (size_t i = 0; i < count; i++) {
        const char *star = strrchr(schema[i].section, '*');
        if (star == NULL || star[1] != '\0' || star - schema[i].section < 2) continue;
        size_t fixed = (size_t)(star - schema[i].section); /* with the blank */
        if (star[-1] == ' ' && strncmp(schema[i].section, name, fixed) == 0 &&
            name[fixed] != '\0') {
            return &schema[i];
        }
    }
    return NULL;
}

static dl_status fail_section(const dl_ini *ini, const dl_ini_section *section,
                              const dl_ini_section_schema *schema, size_t count, dl_error *err)
{
    const char **names = dl_calloc(count, sizeof *names, "INI section names");
    for (size_t i = 0; i < count; i++)
        names[i] = schema[i].section;
    char hint[256];
    dl_names_hint(hint, sizeof hint, section->name, names, count);
    free(names);
    return dl_error_set_at(err, DL_ERR_NAME, ini->path, section->line, "unknown section [%s]%s",
                           section->name, hint);
}

static dl_status check_key(const dl_ini *ini, const dl_ini_entry *entry,
                           const dl_ini_section_schema *schema, dl_error *err)
{
    size_t count = 0;
    while (schema->keys[count] != NULL)
        count++;
    if (dl_names_find("*", schema->keys, count) >= 0) return DL_OK;
    if (dl_names_find(entry->key, schema->keys, count) >= 0) return DL_OK;
    char hint[256];
    dl_names_hint(hint, sizeof hint, entry->key, schema->keys, count);
    return dl_error_set_at(err, DL_ERR_NAME, ini->path, entry->line, "unknown key '%s' in [%s]%s",
                           entry->key, entry->section, hint);
}

dl_status dl_ini_check(const dl_ini *ini, const dl_ini_section_schema *schema, size_t count,
                       dl_error *err)
{
    for (size_t i = 0; i < ini->section_count; i++) {
        const dl_ini_section *section = &ini->sections[i];
        if (find_schema(section->name, schema, count) == NULL) {
            return fail_section(ini, section, schema, count, err);
        }
    }
    for (size_t i = 0; i < ini->count; i++) {
        const dl_ini_entry *entry = &ini->entries[i];
        const dl_ini_section_schema *found = find_schema(entry->section, schema, count);
        if (found == NULL) { /* only "" has no [section] line */
            return dl_error_set_at(err, DL_ERR_NAME, ini->path, entry->line,
                                   "key '%s' stands before the first [section]", entry->key);
        }
        dl_status status = check_key(ini, entry, found, err);
        if (status != DL_OK) return status;
    }
    return DL_OK;
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
    return dl_error_set_at(err, code, ini->path, entry->line, "[%s] %s = %s: %s", entry->section,
                           entry->key, entry->value, text);
}
