#include "common/keys.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/manual.h"
#include "common/units.h"

static const char *const no_yes[] = {"no", "yes", NULL};

/* Returns whether `name` equals the pattern, or matches a pattern that ends in '*'. */
static bool admits(const char *pattern, const char *name)
{
    const size_t length = strlen(pattern);
    if (length == 0 || pattern[length - 1] != '*') return strcmp(pattern, name) == 0;
    return strncmp(pattern, name, length - 1) == 0 && name[length - 1] != '\0';
}

const dl_key *dl_keys_find(const dl_keys *keys, const char *section, const char *name)
{
    const dl_key *found = NULL;
    for (size_t i = 0; i < keys->count; i++) {
        const dl_key *key = &keys->rows[i];
        if (!admits(key->section, section) || !admits(key->name, name)) continue;
        if (strcmp(key->name, name) == 0) return key;
        if (found == NULL) found = key;
    }
    return found;
}

/* Lists distinct names in names[keys->count]: the sections if `section` is NULL, else the keys of
 * that section, of all sections for "". Returns their number. */
static size_t list_names(const dl_keys *keys, const char *section, const char **names)
{
    size_t count = 0;
    for (size_t i = 0; i < keys->count; i++) {
        const dl_key *key = &keys->rows[i];
        if (section != NULL && section[0] != '\0' && !admits(key->section, section)) continue;
        const char *name = section != NULL ? key->name : key->section;
        if (dl_names_find(name, names, count) < 0) names[count++] = name;
    }
    return count;
}

static bool has_section(const dl_keys *keys, const char *section)
{
    for (size_t i = 0; i < keys->count; i++) {
        if (admits(keys->rows[i].section, section)) return true;
    }
    return false;
}

static const dl_key *of_another_section(const dl_keys *keys, const char *name)
{
    for (size_t k = 0; k < keys->count; k++)
        if (strcmp(keys->rows[k].name, name) == 0) return &keys->rows[k];
    return NULL;
}

/* Writes the hint for an unknown section or, with `section`, an unknown key in it: the dlscale name
 * for another program's word, another section that has the key, a remark about the word, or the
 * nearest name. */
static void put_hint(const dl_keys *keys, const char *section, const char *name, char *hint,
                     size_t bytes)
{
    const dl_word *word = dl_word_find(keys->words, name);
    const dl_key *other = section != NULL ? of_another_section(keys, name) : NULL;
    if (word != NULL && word->here != NULL && section != NULL) {
        dl_status status = dl_keys_named(keys, word->here, &other, NULL);
        DL_ASSERT(status == DL_OK, "no key %s", word->here);
    }
    if (other != NULL && strcmp(other->section, section) == 0) {
        snprintf(hint, bytes, "; here it is called '%s'", other->name);
    } else if (other != NULL) {
        snprintf(hint, bytes, "; it is '%s' of [%s]", other->name, other->section);
    } else if (word != NULL && word->here == NULL) {
        snprintf(hint, bytes, "; %s", word->says);
    } else {
        DL_AUTOFREE const char **names = dl_calloc(keys->count, sizeof *names, "names of keys");
        dl_names_hint(hint, bytes, name, names, list_names(keys, section, names));
    }
}

dl_status dl_keys_check(const dl_keys *keys, const dl_ini *ini, dl_error *err)
{
    char hint[400];
    for (size_t i = 0; i < ini->section_count; i++) {
        const dl_ini_section *section = &ini->sections[i];
        if (has_section(keys, section->name)) continue;
        put_hint(keys, NULL, section->name, hint, sizeof hint);
        return dl_error_set_at(err, DL_ERR_NAME, ini->path, section->line, "unknown section [%s]%s",
                               section->name, hint);
    }
    for (size_t i = 0; i < ini->count; i++) {
        const dl_ini_entry *entry = &ini->entries[i];
        if (entry->section[0] == '\0') {
            return dl_error_set_at(err, DL_ERR_NAME, ini->path, entry->line,
                                   "key '%s' is before the first [section]", entry->key);
        }
        if (dl_keys_find(keys, entry->section, entry->key) != NULL) continue;
        put_hint(keys, entry->section, entry->key, hint, sizeof hint);
        return dl_error_set_at(err, DL_ERR_NAME, ini->path, entry->line,
                               "unknown key '%s' in [%s]%s", entry->key, entry->section, hint);
    }
    return DL_OK;
}

dl_status dl_keys_named(const dl_keys *keys, const char *text, const dl_key **found, dl_error *err)
{
    const char *dot = strrchr(text, '.'), *name = dot != NULL ? dot + 1 : text;
    char hint[400];
    *found = NULL;
    for (size_t k = 0; k < keys->count; k++) {
        const dl_key *key = &keys->rows[k];
        const size_t bytes = strlen(key->section);
        if (strcmp(key->name, name) != 0) continue;
        if (dot != NULL &&
            (bytes != (size_t)(dot - text) || strncmp(text, key->section, bytes) != 0))
            continue;
        if (*found != NULL)
            return dl_error_set(err, DL_ERR_NAME,
                                "several sections have '%s'; give SECTION.KEY, as %s.%s", text,
                                key->section, key->name);
        *found = key;
    }
    if (*found != NULL) return DL_OK;
    DL_AUTOFREE char *section = dl_strndup(text, dot != NULL ? (size_t)(dot - text) : 0);
    const bool is_word = !has_section(keys, section) && dl_word_find(keys->words, section) != NULL;
    put_hint(keys, is_word ? NULL : "", is_word ? section : name, hint, sizeof hint);
    return dl_error_set(err, DL_ERR_NAME, "no key is called '%s'%s", text, hint);
}

dl_status dl_keys_need(const dl_ini *ini, const char *section, const char *name,
                       const dl_ini_entry **entry, dl_error *err)
{
    *entry = dl_ini_find(ini, section, name);
    if (*entry != NULL) return DL_OK;
    return dl_error_set_at(err, DL_ERR_DATA, ini->path, dl_ini_section_line(ini, section),
                           "[%s] %s is missing", section, name);
}

dl_status dl_key_check(const dl_key *key, double value, const char *text, const dl_ini *ini,
                       const dl_ini_entry *entry, dl_error *err)
{
    dl_error why = {0};
    dl_status status = dl_amount_check(value, key->dimension, key->low, key->high, text, &why);
    return status == DL_OK ? DL_OK : dl_ini_error(ini, entry, status, err, "%s", why.text);
}

dl_status dl_key_choice(const dl_key *key, const char *text, int *choice, dl_error *err)
{
    const char *const *choices = key->choices != NULL ? key->choices : no_yes;
    size_t count = 0;
    while (choices[count] != NULL)
        count++;
    *choice = dl_names_find(text, choices, count);
    const dl_word *word = *choice < 0 ? dl_word_find(key->elsewhere, text) : NULL;
    if (word != NULL && word->here != NULL) *choice = dl_names_find(word->here, choices, count);
    if (*choice >= 0) return DL_OK;
    if (word != NULL) return dl_error_set(err, DL_ERR_NAME, "unknown name; %s", word->says);
    char hint[256];
    dl_names_hint(hint, sizeof hint, text, choices, count);
    return dl_error_set(err, DL_ERR_NAME, "unknown name%s", hint);
}

static dl_status read_number(const dl_key *key, const char *text, double *value, dl_error *err)
{
    dl_status status = dl_amount_parse(text, key->dimension, value, err);
    if (status != DL_OK) return status;
    return dl_amount_check(*value, key->dimension, key->low, key->high, text, err);
}

static dl_status read_whole(const dl_key *key, const char *text, int64_t *value, dl_error *err)
{
    if (key->dimension == DL_DIMENSION_PURE) {
        return dl_parse_int(text, (int64_t)key->low, (int64_t)key->high, value, err);
    }
    double number = 0;
    dl_status status = read_number(key, text, &number, err);
    if (status != DL_OK) return status;
    *value = (int64_t)number;
    if ((double)*value == number) return DL_OK;
    return dl_error_set(err, DL_ERR_PARSE, "'%s' is not a whole number", text);
}

static dl_status read_quantity(const dl_key *key, const char *text, dl_quantity *quantity,
                               dl_error *err)
{
    dl_quantity parsed = {0};
    dl_status status = dl_quantity_parse(text, key->dimension, &parsed, err);
    if (status != DL_OK) return status;
    if (parsed.low < parsed.high && !key->bounds) {
        return dl_error_set(err, DL_ERR_PARSE, "'%s': this key takes no bounds", text);
    }
    status = dl_amount_check(parsed.value, key->dimension, key->low, key->high, text, err);
    for (int end = 0; end < 2 && status == DL_OK && parsed.low < parsed.high; end++)
        status = dl_amount_check(end == 0 ? parsed.low : parsed.high, key->dimension, key->low,
                                 key->high, text, err);
    if (status == DL_OK) *quantity = parsed;
    return status;
}

/* Reads a value's text into its field. */
static dl_status read_text(const dl_key *key, const char *text, void *field, dl_error *err)
{
    int choice = 0;
    int64_t whole = 0;
    double real = 0;
    dl_status status = DL_OK;
    switch (key->type) {
    case DL_KEY_TEXT:
        free(*(char **)field);
        *(char **)field = dl_strdup(text);
        break;
    case DL_KEY_CHOICE:
    case DL_KEY_FLAG:
        status = dl_key_choice(key, text, &choice, err);
        if (status != DL_OK) break;
        if (key->type == DL_KEY_FLAG) {
            *(bool *)field = choice == 1;
        } else {
            memcpy(field, &choice, sizeof choice); /* enums are as large as int */
        }
        break;
    case DL_KEY_INT:
    case DL_KEY_INT64:
        status = read_whole(key, text, &whole, err);
        if (status != DL_OK) break;
        if (key->type == DL_KEY_INT64) {
            *(int64_t *)field = whole;
        } else {
            *(int *)field = (int)whole;
        }
        break;
    case DL_KEY_REAL:
        status = read_number(key, text, &real, err);
        if (status == DL_OK) *(double *)field = real;
        break;
    case DL_KEY_QUANTITY: status = read_quantity(key, text, field, err); break;
    case DL_KEY_OWN: break;
    }
    return status;
}

dl_status dl_keys_read(const dl_keys *keys, int owner, const dl_ini *ini, const char *section,
                       void *part, dl_error *err)
{
    for (size_t i = 0; i < keys->count; i++) {
        const dl_key *key = &keys->rows[i];
        if (key->owner != owner || key->type == DL_KEY_OWN) continue;
        if (section != NULL && !admits(key->section, section)) continue;
        const char *of = section != NULL ? section : key->section;
        const dl_ini_entry *entry = dl_ini_find(ini, of, key->name);
        if (entry == NULL && key->fallback == NULL && !key->required) continue;
        dl_status status = DL_OK;
        if (entry == NULL && key->required) status = dl_keys_need(ini, of, key->name, &entry, err);
        if (status != DL_OK) return status;
        dl_error why = {0};
        status = read_text(key, entry != NULL ? entry->value : key->fallback,
                           (char *)part + key->offset, &why);
        DL_ASSERT(status == DL_OK || entry != NULL, "default of %s: %s", key->name, why.text);
        if (status != DL_OK) return dl_ini_error(ini, entry, status, err, "%s", why.text);
    }
    return DL_OK;
}

char *dl_key_text(const dl_key *key, const void *field)
{
    const char *const *choices = key->choices != NULL ? key->choices : no_yes;
    int choice = 0;
    switch (key->type) {
    case DL_KEY_TEXT: return dl_strdup(*(char *const *)field);
    case DL_KEY_CHOICE: memcpy(&choice, field, sizeof choice); return dl_strdup(choices[choice]);
    case DL_KEY_FLAG: return dl_strdup(choices[*(const bool *)field]);
    case DL_KEY_INT: return dl_format("%d", *(const int *)field);
    case DL_KEY_INT64: return dl_format("%lld", (long long)*(const int64_t *)field);
    case DL_KEY_REAL: return dl_format("%g", *(const double *)field);
    case DL_KEY_QUANTITY: return dl_format("%g", ((const dl_quantity *)field)->value);
    case DL_KEY_OWN: break;
    }
    DL_ASSERT(false, "[%s] %s has no field", key->section, key->name);
    return NULL;
}

/* --- dependencies between keys --------------------------------------------------------------- */

bool dl_key_depends(const dl_key *key, char *name, size_t bytes)
{
    if (key->only == NULL) return false;
    snprintf(name, bytes, "%.*s", (int)strcspn(key->only, " "), key->only);
    return true;
}

bool dl_key_holds(const dl_key *key, const char *value)
{
    if (key->only == NULL) return true;
    if (value == NULL) return false;
    const char *rest = strchr(key->only, ' ');
    if (rest == NULL) return strcmp(value, "none") != 0;
    if (rest[1] == '>')
        return strcmp(value, rest + strlen(" > ")) != 0; /* ">" is used with 1 only,
                                                                          * the least value of such
                                                                          * keys */
    const size_t length = strlen(value);
    for (rest += strlen(" = "); rest != NULL; rest = strchr(rest, ',')) {
        rest += strspn(rest, ", ");
        if (strncmp(rest, value, length) == 0 && (rest[length] == ',' || rest[length] == '\0')) {
            return true;
        }
    }
    return false;
}

/* --- the reference --------------------------------------------------------------------------- */

/* Describes a number's range: "integer, 1 to 64", "0 to 1"; "integer from 1", "from 0" if the upper
 * limit is beyond practical use; with a unit "number of ns, us, ms, s, 0 ns to 1 s"; if `brief`,
 * "1, 2, ... 64" for whole numbers, and nothing without an upper limit, or with a unit, in which
 * the key's name ends. */
static void describe_number(const dl_key *key, bool brief, char *text, size_t bytes)
{
    const double far_beyond_use = 1e5;
    const bool whole = key->type == DL_KEY_INT || key->type == DL_KEY_INT64;
    const char *bounds = key->bounds ? "; bounds" : "";
    char low[40], high[40], units[80];
    if (brief && (key->dimension != DL_DIMENSION_PURE || key->high >= far_beyond_use)) {
        snprintf(text, bytes, "%s", bounds + (bounds[0] != '\0' ? strlen("; ") : 0));
    } else if (brief && whole) {
        snprintf(text, bytes, "%g, %g, ... %g", key->low, key->low + 1, key->high);
    } else if (key->dimension == DL_DIMENSION_PURE && key->high < far_beyond_use) {
        snprintf(text, bytes, "%s%g to %g%s", whole ? "integer, " : "", key->low, key->high,
                 bounds);
    } else if (key->dimension == DL_DIMENSION_PURE) {
        snprintf(text, bytes, "%sfrom %g%s", whole ? "integer " : "", key->low, bounds);
    } else {
        dl_dimension_units(units, sizeof units, key->dimension);
        dl_amount_text(low, sizeof low, key->low, key->dimension);
        dl_amount_text(high, sizeof high, key->high, key->dimension);
        snprintf(text, bytes, "%s of %s, %s to %s%s", whole ? "integer" : "number", units, low,
                 high, bounds);
    }
}

/* Describes the value by its form, choices, or range. */
static void describe_value(const dl_key *key, bool brief, char *text, size_t bytes)
{
    const char *const *choices =
        key->type == DL_KEY_FLAG && key->choices == NULL ? no_yes : key->choices;
    if (key->form != NULL) {
        snprintf(text, bytes, "%s", key->form);
    } else if (choices != NULL) {
        size_t used = 0;
        for (size_t c = 0; choices[c] != NULL && used < bytes; c++)
            used +=
                (size_t)snprintf(text + used, bytes - used, "%s%s", c > 0 ? ", " : "", choices[c]);
    } else {
        describe_number(key, brief, text, bytes);
    }
}

static void print_markdown(FILE *out, const dl_key *key, const char *value, const char *fallback,
                           const char *sweep, const char *takes)
{
    const bool has_default = !key->required && key->fallback != NULL;
    const char *const parts[] = {value, key->required ? "required" : "", sweep};
    const char *before = " (";
    fprintf(out, "| `%s%s%s`", key->name, has_default ? " = " : "", has_default ? fallback : "");
    for (size_t i = 0; i < DL_LENGTH(parts); i++) {
        if (parts[i][0] == '\0') continue;
        fprintf(out, "%s%s", before, parts[i]);
        before = "; ";
    }
    fprintf(out, "%s | %s%s%s%s%s |\n", strcmp(before, " (") == 0 ? "" : ")", key->help,
            key->only != NULL ? "; with " : "", key->only != NULL ? key->only : "",
            takes[0] != '\0' ? "; " : "", takes);
}

static void print_terminal(FILE *out, const dl_key *key, const char *value, const char *fallback,
                           const char *sweep, const char *takes)
{
    fprintf(out, "  %s\n      %s; default: %s%s\n      %s", key->name, value, fallback, sweep,
            key->help);
    if (key->only != NULL) fprintf(out, "; with %s", key->only);
    if (takes[0] != '\0') fprintf(out, "; %s", takes);
    fprintf(out, "\n");
}

static void print_man(FILE *out, const dl_key *key, const char *value, const char *fallback,
                      const char *sweep, const char *takes)
{
    const char *only = key->only;
    const bool has_default = !key->required && key->fallback != NULL;
    fputs(".TP\n\\fB", out);
    dl_man_words(out, key->name);
    fputs("\\fR = \\fI", out);
    dl_man_words(out, value);
    fputs("\\fR\n", out);
    DL_AUTOFREE char *text =
        dl_format("%s%s%s%s%s.%s%s%s%s%s", key->help, only != NULL ? "; with " : "",
                  only != NULL ? only : "", takes[0] != '\0' ? "; " : "", takes,
                  key->required ? " Required." : "", has_default ? " Default: " : "",
                  has_default ? fallback : "", has_default ? "." : "", sweep);
    dl_man_text(out, text);
}

/* Prints a key. `lists`: some key of the table accepts lists. */
static void print_key(FILE *out, const dl_key *key, dl_keys_form form, bool lists,
                      const char *takes)
{
    static void (*const print[])(FILE *, const dl_key *, const char *, const char *, const char *,
                                 const char *) = {
        [DL_KEYS_TERMINAL] = print_terminal,
        [DL_KEYS_MARKDOWN] = print_markdown,
        [DL_KEYS_MAN] = print_man,
    };
    static const char *const sweeps[][3] = {
        /* no list, commas, bars */
        [DL_KEYS_TERMINAL] = {"", "; lists", "; lists, between bars"},
        [DL_KEYS_MARKDOWN] = {"no list", "", "bars"},
        [DL_KEYS_MAN] = {"", " Takes lists.", " Takes lists, between bars."},
    };
    const char *sweep = sweeps[form][key->sweep == '\0' ? 0 : key->sweep == '|' ? 2 : 1];
    char value[200], fallback[80];
    describe_value(key, form == DL_KEYS_MARKDOWN, value, sizeof value);
    snprintf(fallback, sizeof fallback, "%s",
             key->required           ? "required"
             : key->fallback != NULL ? key->fallback
                                     : "-");
    print[form](out, key, value, fallback, lists ? sweep : "", takes);
}

/* Returns the number of rows from `from` in the same section. */
static size_t section_length(const dl_keys *keys, size_t from)
{
    size_t to = from;
    while (to < keys->count && strcmp(keys->rows[to].section, keys->rows[from].section) == 0)
        to++;
    return to - from;
}

static bool are_alike(const dl_key *a, const dl_key *b)
{
    char values[2][200];
    describe_value(a, true, values[0], sizeof values[0]);
    describe_value(b, true, values[1], sizeof values[1]);
    return strcmp(a->name, b->name) == 0 && strcmp(a->help, b->help) == 0 && a->low == b->low &&
           a->high == b->high && a->type == b->type && strcmp(values[0], values[1]) == 0;
}

/* Returns the number of rows after the section at `from` that belong to sections with the same
 * keys. */
static size_t alike_length(const dl_keys *keys, size_t from)
{
    const size_t length = section_length(keys, from);
    size_t to = from + length;
    while (to < keys->count && section_length(keys, to) == length) {
        for (size_t i = 0; i < length; i++)
            if (!are_alike(&keys->rows[from + i], &keys->rows[to + i])) return to - from - length;
        to += length;
    }
    return to - from - length;
}

/* Returns whether `takes` gives the same non-empty text for all `count` >= 1 rows; text[bytes]
 * becomes that text. */
static bool all_taken_by(const dl_key *rows, size_t count, dl_key_takes_fn takes, char *text,
                         size_t bytes)
{
    char who[200];
    text[0] = '\0';
    for (size_t k = 0; takes != NULL && k < count; k++) {
        who[0] = '\0';
        takes(&rows[k], who, sizeof who);
        if (k == 0) snprintf(text, bytes, "%s", who);
        if (strcmp(text, who) != 0) text[0] = '\0';
        if (text[0] == '\0') return false;
    }
    return text[0] != '\0';
}

/* Prints the names of the sections of `count` rows, and `who`, the modes that use all their keys
 * ("": omitted). `known`: the keys were printed before. */
static void print_section_head(FILE *out, const dl_key *rows, size_t count, dl_keys_form form,
                               bool first, bool known, const char *who)
{
    static const char *const before[] = {"", "\n### ", ".SS "};
    static const char *const after[] = {"\n", "\n\n| key | |\n|-|-|\n", "\n"};
    const char *last = "";
    fputs(form == DL_KEYS_TERMINAL && !first ? "\n" : before[form], out);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(rows[i].section, last) == 0) continue;
        fprintf(out, "%s[%s]", i > 0 ? ", " : "", rows[i].section);
        last = rows[i].section;
    }
    if (who[0] != '\0') fprintf(out, ", %s", who);
    if (known) {
        fprintf(out, "\n%sAs [%s] above.\n", form == DL_KEYS_MARKDOWN ? "\n" : "  ", rows->section);
    } else {
        fputs(after[form], out);
    }
}

/* Returns whether `other` has the same section with the same keys. */
static bool is_like(const dl_keys *other, const dl_key *rows, size_t length)
{
    size_t from = 0;
    while (from < other->count && strcmp(other->rows[from].section, rows->section) != 0)
        from++;
    if (from == other->count || section_length(other, from) != length) return false;
    for (size_t i = 0; i < length; i++)
        if (!are_alike(&other->rows[from + i], &rows[i])) return false;
    return true;
}

/* docs/keys.md describes the key `source` of many sections once, in its head, and leaves out
 * sections that only programs write. */
static bool is_shown(const dl_keys *keys, const dl_key *key, dl_keys_form form)
{
    if (form != DL_KEYS_MARKDOWN) return true;
    size_t i = 0;
    while (keys->made != NULL && keys->made[i] != NULL && strcmp(keys->made[i], key->section) != 0)
        i++;
    return strcmp(key->name, "source") != 0 && (keys->made == NULL || keys->made[i] == NULL);
}

static bool any_takes_lists(const dl_keys *keys)
{
    size_t i = 0;
    while (i < keys->count && keys->rows[i].sweep == '\0')
        i++;
    return i < keys->count;
}

/* Whether `section` is the name "op", the pattern "op *", or a section "op conv" of it. */
static bool is_asked(const char *pattern, const char *section)
{
    const size_t bytes = strlen(section);
    const bool is_name = strncmp(pattern, section, bytes) == 0 &&
                         (pattern[bytes] == '\0' || strcmp(pattern + bytes, " *") == 0);
    return is_name || admits(pattern, section);
}

bool dl_keys_print(FILE *out, const dl_keys *keys, const char *section, dl_keys_form form,
                   dl_key_takes_fn takes, const dl_keys *before)
{
    bool any = false;
    const bool lists = any_takes_lists(keys);
    for (size_t i = 0, length, alike; i < keys->count; i += length + alike) {
        const dl_key *rows = &keys->rows[i];
        length = section_length(keys, i);
        alike = section == NULL ? alike_length(keys, i) : 0;
        if (section != NULL && !is_asked(rows->section, section)) continue;
        if (!is_shown(keys, rows, form)) continue;
        char of_all[200];
        const bool shared = all_taken_by(rows, length, takes, of_all, sizeof of_all);
        const bool known = before != NULL && is_like(before, rows, length);
        print_section_head(out, rows, length + alike, form, !any, known, of_all);
        any = true;
        for (size_t k = 0; k < length && !known; k++) {
            if (!is_shown(keys, &rows[k], form)) continue;
            char who[200] = "";
            if (takes != NULL && !shared) takes(&rows[k], who, sizeof who);
            print_key(out, &rows[k], form, lists, who);
        }
    }
    return any;
}
