#include "common/rows.h"

#include <stdlib.h>

#include "common/alloc.h"
#include "common/members.h"
#include "common/wrap.h"

void dl_rows_begin(dl_rows *rows, const char *name, const char *title)
{
    rows->title = title;
    if (rows->json != NULL) dl_json_begin(rows->json, name, '[');
}

static void add_csv(dl_rows *rows, const char *format, va_list *args)
{
    dl_member m;
    va_list again;
    va_copy(again, *args);
    for (const char *at = format; rows->count == 0 && dl_member_next(&m, &at, &again);)
        if (m.name[0] != '\0') dl_csv_text(rows->csv, m.name);
    va_end(again);
    if (rows->count++ == 0) dl_csv_end_row(rows->csv);
    while (dl_member_next(&m, &format, args)) {
        if (m.name[0] == '\0') continue;
        switch (m.kind) {
        case DL_MEMBER_TEXT: dl_csv_text(rows->csv, m.text != NULL ? m.text : ""); break;
        case DL_MEMBER_TRUTH:
        case DL_MEMBER_COUNT: dl_csv_int(rows->csv, m.count); break;
        case DL_MEMBER_NUMBER: dl_csv_double(rows->csv, m.number); break;
        }
    }
    dl_csv_end_row(rows->csv);
}

static dl_datum cell_of(const void *row, const dl_column *column)
{
    const char *text = ((char *const *)row)[column->index];
    return dl_datum_text(text[0] != '\0' ? text : NULL);
}

/* Returns whether the column is displayed. */
static bool is_shown(const dl_member *member)
{
    return member->heading[0] != '\0' || member->name[0] == '\0';
}

static void add_text(dl_rows *rows, const char *format, va_list *args)
{
    dl_member m;
    const bool is_first = rows->count == 0;
    size_t cells = rows->count++ * rows->columns;
    while (dl_member_next(&m, &format, args)) {
        if (!is_shown(&m)) continue;
        DL_APPEND(rows->cells, cells, "cells") = dl_member_text(&m);
        if (!is_first) continue;
        const dl_column head = {.heading = dl_strdup(m.heading),
                                .form = m.is_left ? DL_FORM_TEXT : DL_FORM_PLAIN,
                                .index = (int)rows->columns,
                                .get = cell_of};
        DL_APPEND(rows->heads, rows->columns, "columns") = head;
    }
}

void dl_rows_add(dl_rows *rows, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (rows->json != NULL) {
        dl_json_begin(rows->json, NULL, '{');
        dl_json_put_members(rows->json, format, &args);
        dl_json_end(rows->json, '}');
    } else if (rows->csv != NULL) {
        add_csv(rows, format, &args);
    } else {
        add_text(rows, format, &args);
    }
    va_end(args);
}

static void print(const dl_rows *rows, size_t most)
{
    const dl_column_table table = {.list = rows->heads,
                                   .column_count = rows->columns,
                                   .rows = rows->cells,
                                   .row_count = most > 0 && rows->count > most ? most : rows->count,
                                   .row_bytes = rows->columns * sizeof *rows->cells,
                                   .indent = rows->indent};
    if (rows->title != NULL)
        fprintf(rows->out, "\n%s%s", rows->title, rows->title[0] != '\0' ? "\n" : "");
    dl_columns_print(rows->out, &table, (size_t)dl_wrap_columns(rows->out));
    if (rows->count > table.row_count)
        fprintf(rows->out, "and %zu more\n", rows->count - table.row_count);
}

void dl_rows_end(dl_rows *rows, size_t most)
{
    if (rows->json != NULL) dl_json_end(rows->json, ']');
    if (rows->cells != NULL) print(rows, most);
    for (size_t i = 0; i < rows->count * rows->columns; i++)
        free(rows->cells[i]);
    for (size_t c = 0; c < rows->columns; c++)
        free((char *)(uintptr_t)rows->heads[c].heading);
    free(rows->cells);
    free(rows->heads);
    *rows =
        (dl_rows){.out = rows->out, .json = rows->json, .csv = rows->csv, .indent = rows->indent};
}
