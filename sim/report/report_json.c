/* Results as one JSON document, from the same table as the CSV file. */
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/names.h"
#include "common/output.h"
#include "common/units.h"
#include "sim/report/deciding.h"
#include "sim/report/report.h"
#include "sim/report/report_assumed.h"

/* Writes the value as a number if it parses as one, else as text. */
static void write_value(dl_json *to, const char *name, const char *text)
{
    double number = 0;
    if (dl_parse_double(text, -1e300, 1e300, &number, NULL) == DL_OK) {
        dl_json_number_item(to, name, number);
    } else {
        dl_json_text_item(to, name, text);
    }
}

static void write_pairs(dl_json *to, const char *name, const char *text)
{
    char *copy = dl_strdup(text), *rest = NULL;
    dl_json_begin(to, name, '{');
    for (char *pair = strtok_r(copy, " ", &rest); pair != NULL; pair = strtok_r(NULL, " ", &rest)) {
        char *equals = strchr(pair, '=');
        if (equals == NULL) continue;
        *equals = '\0';
        write_value(to, pair, equals + 1);
    }
    dl_json_end(to, '}');
    free(copy);
}

/* Writes comments such as "settings: steps=200 ..." and "scenario: LeNet" as members. Skips the
 * repeatable ones, which are written as lists, and the first line, which belongs to the head. */
static void write_comments(dl_json *to, const dl_cell_table *table)
{
    static const char *const lists[] = {"assumed", "note", "default", "swept", "gain"};
    static const char *const pairs[] = {"settings", "exchange", "accuracy"};
    for (size_t i = 1; i < table->comment_count; i++) {
        const char *text = table->comments[i], *colon = strstr(text, ": ");
        if (colon == NULL) continue;
        DL_AUTOFREE char *name = dl_strndup(text, (size_t)(colon - text));
        if (dl_names_find(name, pairs, DL_LENGTH(pairs)) >= 0) {
            write_pairs(to, name, colon + 2);
        } else if (dl_names_find(name, lists, DL_LENGTH(lists)) < 0) {
            dl_json_text_item(to, name, colon + 2);
        }
    }
}

static void write_swept(dl_json *to, const dl_study *study)
{
    dl_json_begin(to, "swept", '[');
    for (size_t k = 0; k < study->key_count; k++) {
        const dl_swept_key *key = &study->keys[k];
        dl_json_object(to, NULL, "section=%s key=%s column=%s", key->section, key->key,
                       key->column);
    }
    dl_json_end(to, ']');
}

/* Writes a list of the comments that begin with `prefix`, each by `write`. */
static void write_list(dl_json *to, const dl_cell_table *table, const char *list,
                       const char *prefix,
                       void (*write)(dl_json *to, const char *name, const char *text))
{
    const size_t length = strlen(prefix);
    dl_json_begin(to, list, '[');
    for (size_t i = 0; i < table->comment_count; i++) {
        const char *text = table->comments[i];
        if (strncmp(text, prefix, length) == 0) write(to, NULL, text + length);
    }
    dl_json_end(to, ']');
}

static void write_defaults(dl_json *to, const dl_study *study, const dl_sweep *sweep)
{
    size_t count = 0;
    DL_AUTOFREE dl_deciding_default *deciding = dl_deciding_defaults(study, sweep, &count);
    dl_json_begin(to, "defaults", '[');
    for (size_t i = 0; i < count; i++) {
        const dl_deciding_default *d = &deciding[i];
        if (d->given) continue; /* its note is in the list of notes */
        dl_json_begin(to, NULL, '{');
        dl_json_members(to, "section=%s key=%s value=%s rows=%zu", d->key->section, d->key->name,
                        d->key->fallback, d->rows);
        if (d->column != NULL) dl_json_number_item(to, d->column, d->most);
        dl_json_end(to, '}');
    }
    dl_json_end(to, ']');
}

void dl_report_json_write(FILE *out, const dl_study *study, const dl_sweep *sweep,
                          const dl_measured *measured, const dl_explanation *explanation)
{
    DL_SCOPED(dl_cell_table) table = {0};
    dl_json to = {.out = out};
    dl_report_results_table(&table, study, sweep, measured, explanation);
    dl_json_begin(&to, NULL, '{');
    dl_json_members(&to, "format=%s schema=%d", "dlsim results", DL_RESULTS_SCHEMA);
    write_comments(&to, &table);
    write_swept(&to, study);
    write_list(&to, &table, "notes", "note: ", dl_json_text_item);
    write_defaults(&to, study, sweep);
    dl_report_assumed_json(&to, study, sweep);
    if (explanation != NULL) write_list(&to, &table, "gains", "gain: ", write_pairs);
    dl_cell_table_write_json(&to, &table);
    dl_json_end(&to, '}');
    fputc('\n', out);
}

dl_status dl_report_json(const char *path, const dl_study *study, const dl_sweep *sweep,
                         const dl_measured *measured, const dl_explanation *explanation,
                         dl_error *err)
{
    dl_output output = {0};
    const dl_status status = dl_output_open(&output, path, err);
    if (status != DL_OK) return status;
    dl_report_json_write(output.out, study, sweep, measured, explanation);
    return dl_output_close(&output, err);
}
