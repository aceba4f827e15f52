/* Columns of a table of results. A row of a constant table gives a column's name in files, its
 * heading in displayed text, its unit and meaning, and the function that reads its value. These
 * rows generate CSV and JSON (through a dl_csv_writer), text for a terminal, HTML
 * (sim/report/html.h) and the reference of columns. */
#ifndef DL_COMMON_COLUMNS_H
#define DL_COMMON_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/csv.h"

typedef enum dl_datum_kind {
    DL_DATUM_NONE, /* no value: an empty cell */
    DL_DATUM_NUMBER,
    DL_DATUM_COUNT,
    DL_DATUM_TEXT,
    DL_DATUM_LIST
} dl_datum_kind;

/* A value of one cell. */
typedef struct dl_datum {
    dl_datum_kind kind;
    double number;      /* NaN: no value */
    int64_t count;      /* for a list: number of elements */
    const char *text;   /* borrowed, or stored in `owned` */
    const double *list; /* [count], borrowed, or stored in `owned` */
    void *owned;        /* memory that dl_datum_free releases, or NULL */
} dl_datum;

dl_datum dl_datum_none(void);
dl_datum dl_datum_number(double number);
dl_datum dl_datum_count(int64_t count);
dl_datum dl_datum_text(const char *text); /* NULL: no value */
dl_datum dl_datum_owned_text(char *text);
dl_datum dl_datum_list(const double *list, int64_t count); /* NULL: no value */
dl_datum dl_datum_owned_list(double *list, int64_t count);
void dl_datum_free(dl_datum *datum);

/* Display form of a number; counts and texts are displayed unchanged. */
typedef enum dl_column_form {
    DL_FORM_PLAIN,   /* multiplied by `scale`, with `digits` after the point */
    DL_FORM_PERCENT, /* fraction in per cent, with `digits` after the point */
    DL_FORM_SIGNED,  /* fraction in per cent, with a sign except for 0, and `digits` after the
                      * point */
    DL_FORM_TIME,    /* seconds, "12.3 ms" */
    DL_FORM_NS,      /* nanoseconds, displayed like DL_FORM_TIME */
    DL_FORM_BYTES,   /* "1.72 GB" */
    DL_FORM_RATE, /* multiplied by `scale`, with four digits, or more before the point (below 10^12) */
    DL_FORM_TEXT
} dl_column_form;

typedef struct dl_column dl_column;
struct dl_column {
    const char *name;    /* name in files; NULL: displayed only */
    const char *unit;    /* unit of the value in files; NULL: none */
    const char *help;    /* text of the reference; NULL: the previous row's text also covers this
                          * one */
    const char *heading; /* displayed heading with the unit; NULL: in files only */
    dl_column_form form;
    int digits;
    double scale; /* 0 means 1 */
    int group;    /* caller-defined number that determines which results have the column */
    int index;    /* argument of `get` */
    size_t offset;
    dl_datum (*get)(const void *row, const dl_column *column);
    char *(*link)(const void *row); /* returns the URL of the cell's link in HTML, a new string, or
                                     * NULL; may be NULL */
};

/* Displayed heading and form of a column, as initializers of dl_column members. */
#define DL_WORD(heading_) .heading = (heading_), .form = DL_FORM_TEXT
#define DL_PLAIN(heading_, digits_) .heading = (heading_), .digits = (digits_)
#define DL_PERCENT(heading_, digits_) DL_PLAIN(heading_, digits_), .form = DL_FORM_PERCENT
#define DL_SIGNED(heading_, digits_) DL_PLAIN(heading_, digits_), .form = DL_FORM_SIGNED
#define DL_TIME(heading_) .heading = (heading_), .form = DL_FORM_TIME
#define DL_BYTES(heading_) .heading = (heading_), .form = DL_FORM_BYTES
#define DL_RATE(heading_) .heading = (heading_), .form = DL_FORM_RATE

/* Getters of the row's member at `offset`. DL_MEMBER initializes the offset and the getter of a
 * column for the member `member` of a row of type `type`: a number, a count or a text. */
dl_datum dl_column_get_double(const void *row, const dl_column *column);
dl_datum dl_column_get_int(const void *row, const dl_column *column);
dl_datum dl_column_get_unsigned(const void *row, const dl_column *column);
dl_datum dl_column_get_int64(const void *row, const dl_column *column);
dl_datum dl_column_get_size(const void *row, const dl_column *column);
dl_datum dl_column_get_text(const void *row, const dl_column *column);
dl_datum dl_column_get_chars(const void *row, const dl_column *column); /* a char array */

/* clang-format off */
#define DL_MEMBER(type, member)                  \
    .offset = offsetof(type, member),            \
    .get = _Generic(&((type *)0)->member,        \
                    double *: dl_column_get_double,      \
                    int *: dl_column_get_int,            \
                    unsigned *: dl_column_get_unsigned,  \
                    int64_t *: dl_column_get_int64,      \
                    size_t *: dl_column_get_size,        \
                    char **: dl_column_get_text,         \
                    const char **: dl_column_get_text,   \
                    default: dl_column_get_chars)
/* clang-format on */

/* A table: columns, and rows of any type. */
typedef struct dl_column_table {
    const dl_column *const *columns; /* [column_count]; NULL: the columns are in `list` */
    const dl_column *list;
    size_t column_count;
    const void *rows; /* [row_count], row_bytes each */
    size_t row_count, row_bytes;
    int indent; /* blanks before each line of displayed text */
    /* Returns a text that replaces the row's displayed cells from column `failed_from`, or NULL for
     * a complete row. May be NULL. */
    const char *(*failed)(const void *row);
    size_t failed_from;
    /* Returns a mark displayed after the row ("*"), or "" for none. May be NULL. */
    const char *(*mark)(const void *row);
    char *(*remark)(const void *row); /* returns a new text about the row, or NULL; may be NULL */
    const void *chosen;               /* highlighted row; NULL: none */
    /* Returns the row's class in HTML, or NULL. May be NULL. */
    const char *(*row_class)(const void *row);
} dl_column_table;

/* Initializes a table of all columns of an array `list_` and the rows rows_[count_]; further
 * members may be set. */
#define DL_COLUMN_TABLE(list_, rows_, count_)                                                      \
    (dl_column_table)                                                                              \
    {                                                                                              \
        .list = (list_), .column_count = DL_LENGTH(list_), .rows = (rows_), .row_count = (count_), \
        .row_bytes = sizeof *(rows_)                                                               \
    }

const void *dl_column_table_row(const dl_column_table *table, size_t row);
const dl_column *dl_column_table_column(const dl_column_table *table, size_t column);

/* Write the names, and a row's values, as CSV cells of the columns with a name; the caller ends
 * each row. */
void dl_columns_csv_names(dl_csv_writer *writer, const dl_column *const *columns, size_t count);
void dl_columns_csv_row(dl_csv_writer *writer, const dl_column *const *columns, size_t count,
                        const void *row);

/* Writes the names of a table's columns and all of its rows. */
void dl_columns_csv(dl_csv_writer *writer, const dl_column_table *table);

/* Returns a number in the column's form, as a new string. */
char *dl_column_number_text(const dl_column *column, double number);

/* Returns a row's displayed value, as a new string; "" if there is none. */
char *dl_column_cell_text(const dl_column *column, const void *row);

/* Returns whether any row of the table has a value in the column. */
bool dl_column_has_values(const dl_column_table *table, const dl_column *column);

/* Returns the displayed value common to all rows in the column, as a new string; NULL if the values
 * differ, a row has none, or there are no rows. */
char *dl_column_common_text(const dl_column_table *table, const dl_column *column);

/* Prints the columns with a heading and a value in some row as lines of text. Columns are as wide
 * as their cells, DL_FORM_TEXT is left-aligned, other forms are right-aligned with "-" for no
 * value. The chosen row is marked with '>', and is bold on a terminal. A remark follows its row, or
 * is printed below it if `width` has no room for it; of equal remarks of successive failed rows
 * only the last is printed. */
void dl_columns_print(FILE *out, const dl_column_table *table, size_t width);

/* dl_column_width returns the width of a column in dl_columns_print; dl_columns_extra returns the
 * additional width of a line for marks and for the sign before the chosen row, excluding the blanks
 * between columns. */
size_t dl_column_width(const dl_column_table *table, const dl_column *column);
size_t dl_columns_extra(const dl_column_table *table);

#endif
