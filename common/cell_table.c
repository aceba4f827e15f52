#include "common/cell_table.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/status.h"

void dl_cell_table_free(dl_cell_table *table)
{
    for (size_t i = 0; i < table->comment_count; i++)
        free(table->comments[i]);
    for (size_t i = 0; i < table->columns; i++)
        free(table->names[i]);
    for (size_t i = 0; i < table->cell_count; i++)
        free(table->cells[i].text);
    free(table->comments);
    free(table->names);
    free(table->cells);
    *table = (dl_cell_table){0};
}

size_t dl_cell_table_rows(const dl_cell_table *table)
{
    return table->columns > 0 ? table->cell_count / table->columns : 0;
}

const dl_cell *dl_cell_table_cell(const dl_cell_table *table, size_t row, size_t column)
{
    DL_ASSERT(row < dl_cell_table_rows(table) && column < table->columns,
              "cell %zu, %zu of %zu, %zu", row, column, dl_cell_table_rows(table), table->columns);
    return &table->cells[row * table->columns + column];
}

const dl_cell *dl_cell_table_find(const dl_cell_table *table, const char *column)
{
    for (size_t c = 0; c < table->columns; c++)
        if (strcmp(table->names[c], column) == 0) return dl_cell_table_cell(table, 0, c);
    return NULL;
}

void dl_cell_table_add_comment(dl_cell_table *table, const char *text)
{
    DL_APPEND(table->comments, table->comment_count, "comments of a table") = dl_strdup(text);
}

void dl_cell_table_add_name(dl_cell_table *table, const char *text)
{
    DL_APPEND(table->names, table->columns, "names of columns") = dl_strdup(text);
}

void dl_cell_table_add_cell(dl_cell_table *table, dl_cell_kind kind, const char *text,
                            double number)
{
    DL_APPEND(table->cells, table->cell_count, "cells of a table") =
        (dl_cell){.kind = kind, .text = dl_strdup(text), .number = number};
}

static void write_list(dl_json *to, const char *name, const char *text)
{
    dl_json_begin(to, name, '[');
    while (*text != '\0') {
        char *end = NULL;
        const double number = strtod(text, &end);
        if (end == text) break;
        dl_json_number_item(to, NULL, number);
        text = end + strspn(end, ";");
    }
    dl_json_end(to, ']');
}

static void write_cell(dl_json *to, const char *name, const dl_cell *cell)
{
    switch (cell->kind) {
    case DL_CELL_EMPTY: dl_json_null_item(to, name); break;
    case DL_CELL_TEXT: dl_json_text_item(to, name, cell->text); break;
    case DL_CELL_NUMBER: dl_json_number_item(to, name, cell->number); break;
    case DL_CELL_LIST: write_list(to, name, cell->text); break;
    }
}

void dl_cell_table_write_json(dl_json *to, const dl_cell_table *table)
{
    dl_json_begin(to, "columns", '[');
    for (size_t c = 0; c < table->columns; c++)
        dl_json_text_item(to, NULL, table->names[c]);
    dl_json_end(to, ']');
    dl_json_begin(to, "rows", '[');
    for (size_t r = 0; r < dl_cell_table_rows(table); r++) {
        fputc('\n', to->out);
        dl_json_begin(to, NULL, '{');
        for (size_t c = 0; c < table->columns; c++)
            write_cell(to, table->names[c], dl_cell_table_cell(table, r, c));
        dl_json_end(to, '}');
    }
    dl_json_end(to, ']');
}
