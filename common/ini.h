/* INI files (scenarios, costs, machines): stored as a list of entries with their lines, and read by
 * typed getters or a table of keys (common/keys.h). Every error names file, line, key, value and
 * the expected form.
 *
 * Grammar: [section], key = value, comments from ';' or '#' at the start of a line, or from ';'
 * after a blank inside one. Blanks around keys and values are ignored. Errors are: a line without
 * '=', a missing ']' or text after it, an empty section name or key, a key repeated in one section,
 * control characters, "key: value". A UTF-8 byte-order mark at the start and CRLF line ends are
 * accepted. */
#ifndef DL_COMMON_INI_H
#define DL_COMMON_INI_H

#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

typedef struct dl_ini_entry {
    const char *section; /* borrowed from dl_ini_section; "": before the first section */
    char *key;
    char *value; /* trimmed */
    int line;    /* 1-based */
} dl_ini_entry;

/* A [section] line, stored because a section may be empty. */
typedef struct dl_ini_section {
    char *name;
    int line; /* 1-based */
} dl_ini_section;

/* A parsed file. Owns all its memory; release with dl_ini_free. */
typedef struct dl_ini {
    char *path;
    dl_ini_entry *entries; /* in file order */
    size_t count;
    dl_ini_section *sections; /* in file order; names may repeat */
    size_t section_count;
} dl_ini;

/* Reads `path`. `ini` must be zeroed; free it after success. */
dl_status dl_ini_read(dl_ini *ini, const char *path, dl_error *err) DL_MUST_CHECK;

/* Reads an INI file from memory; errors call it `name`. `text` may hold any bytes. */
dl_status dl_ini_read_text(dl_ini *ini, const char *name, const char *text, size_t bytes,
                           dl_error *err) DL_MUST_CHECK;

/* Releases all memory; accepts a zeroed object. */
void dl_ini_free(dl_ini *ini);

/* Returns the line of the first [name], or 0 if there is none. */
int dl_ini_section_line(const dl_ini *ini, const char *name);

/* Returns the entry, or NULL if there is none. Borrowed from `ini`. */
const dl_ini_entry *dl_ini_find(const dl_ini *ini, const char *section, const char *key);

/* Typed getters. For a missing key, return DL_ERR_DATA if `fallback` is NULL, else set *out to the
 * fallback. */
dl_status dl_ini_get_int(const dl_ini *ini, const char *section, const char *key, int64_t low,
                         int64_t high, const int64_t *fallback, int64_t *out,
                         dl_error *err) DL_MUST_CHECK;
dl_status dl_ini_get_string(const dl_ini *ini, const char *section, const char *key,
                            const char *fallback, const char **out, dl_error *err) DL_MUST_CHECK;

/* Splits "a, b, c" into trimmed copies; returns DL_ERR_PARSE for empty items. *items is one block
 * of *count pointers; release it with dl_ini_free_list. */
dl_status dl_ini_split(const dl_ini *ini, const dl_ini_entry *entry, char ***items, size_t *count,
                       dl_error *err) DL_MUST_CHECK;
void dl_ini_free_list(char **items, size_t count);

/* Calls take(user, item) for each item of "a, b, c", in order, until a call fails; adds the entry's
 * file and line to its error. `item` is a modifiable copy. */
typedef dl_status (*dl_ini_item_fn)(void *user, char *item, dl_error *err);
dl_status dl_ini_each(const dl_ini *ini, const dl_ini_entry *entry, dl_ini_item_fn take, void *user,
                      dl_error *err) DL_MUST_CHECK;

/* Resolves a path in the file relative to the file's folder. The caller frees it. */
char *dl_ini_beside(const dl_ini *ini, const char *path);

/* --- the text of a file, with its comments --- The caller owns *text, a malloc'ed string that
 * dl_ini_text_set and dl_ini_text_remove replace. All sections of the given name are searched; only
 * the first line of the key is used. */

/* Returns the key's line in `text`, without leading blanks; NULL if there is none. */
const char *dl_ini_text_line(const char *text, const char *section, const char *key);

/* Returns the key's value without comment and blanks, as a new string; NULL if there is none. */
char *dl_ini_text_value(const char *text, const char *section, const char *key);

/* Sets the key to `value`, which must not contain a line end: in the key's line, whose comment is
 * lost; else in a new line at the end of the last section of this name; else in a new section at
 * the end of the text. */
void dl_ini_text_set(char **text, const char *section, const char *key, const char *value);

/* Removes the key's line, if it exists; keeps the section's line. */
void dl_ini_text_remove(char **text, const char *section, const char *key);

/* Sets an error about an entry: "path:line: [section] key = value: <text>"; about the file if
 * `entry` is NULL, for a value from a default or another key. Returns `code`. */
dl_status dl_ini_error(const dl_ini *ini, const dl_ini_entry *entry, dl_status code, dl_error *err,
                       const char *format, ...) DL_PRINTF(5, 6);

#endif
