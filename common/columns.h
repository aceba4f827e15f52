/* Columns of a table of results. A row of a constant table gives a column's name in files, its
 * heading for people, its unit and meaning, and the function that reads its value. From these rows
 * come CSV and JSON (through a dl_csv_writer), text for a terminal, HTML (sim/report/html.h) and
 * the reference of columns. */
#ifndef DL_COMMON_COLUMNS_H
#define DL_COMMON_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/csv.h"

typedef enum dl_datum_kind {
    DL_DATUM_NONE, /* does not apply: an empty cell */
    DL_DATUM_NUMBER,
    DL_DATUM_COUNT,
    DL_DATUM_TEXT,
    DL_DATUM_LIST
} dl_datum_kind;

/* A value of one cell. */
typedef struct dl_datum {
    dl_datum_kind kind;
    double number;      /* NaN: none */
    int64_t count;      /* of a list: its elements */
    const char *text;   /* borrowed, or `owned` */
    const double *list; /* [count], borrowed, or `owned` */
    void *owned;        /* NULL, or memory for dl_datum_free to release */
} dl_datum;

dl_datum dl_datum_none(void);
dl_datum dl_datum_number(double number);
dl_datum dl_datum_count(int64_t count);
dl_datum dl_datum_text(const char *text); /* NULL: none */
dl_datum dl_datum_owned_text(char *text);
dl_datum dl_datum_list(const double *list, int64_t count); /* NULL: none */
dl_datum dl_datum_owned_list(double *list, int64_t count);
void dl_datum_free(dl_datum *datum);

/* How a value is shown to people. */
typedef enum dl_column_form {
    DL_FORM_PLAIN,   /* times `scale`, with `digits` after the point */
    DL_FORM_PERCENT, /* a fraction as per cent, likewise */
    DL_FORM_SIGNED,  /* the same with a sign */
    DL_FORM_TIME,    /* seconds, "12.3 ms" */
    DL_FORM_NS,      /* the same of nanoseconds */
    DL_FORM_BYTES,   /* "1.72 GB" */
    DL_FORM_RATE,    /* times `scale`, with four digits, or more before the point */
    DL_FORM_TEXT
} dl_column_form;

typedef struct dl_column dl_column;
struct dl_column {
    const char *name;    /* in files; NULL: for people only */
    const char *unit;    /* of the value in files; NULL: none */
    const char *help;    /* for the reference; NULL: the row before explains this one too */
    const char *heading; /* for people, with the unit; NULL: in files only */
    dl_column_form form;
    int digits;
    double scale; /* 0: 1 */
    int group;    /* any number of the caller's: which results have the column */
    int index;    /* for `get` */
    size_t offset;
    dl_datum (*get)(const void *row, const dl_column *column);
    char *(*link)(const void *row); /* NULL, or the link of the cell in HTML, a new string */
};

/* A column's heading and form for people, among the members of a dl_column. */
#define DL_WORD(heading_) .heading = (heading_), .form = DL_FORM_TEXT
#define DL_PLAIN(heading_, digits_) .heading = (heading_), .digits = (digits_)
#define DL_PERCENT(heading_, digits_) DL_PLAIN(heading_, digits_), .form = DL_FORM_PERCENT
#define DL_SIGNED(heading_, digits_) DL_PLAIN(heading_, digits_), .form = DL_FORM_SIGNED
#define DL_TIME(heading_) .heading = (heading_), .form = DL_FORM_TIME
#define DL_BYTES(heading_) .heading = (heading_), .form = DL_FORM_BYTES
#define DL_RATE(heading_) .heading = (heading_), .form = DL_FORM_RATE

/* Getters of the row's member at `offset`; and the two fields of a column for the member `member`
 * of a row of type `type`: a number, a count or a text. */
dl_datum dl_column_get_double(const void *row, const dl_column *column);
dl_datum dl_column_get_int(const void *row, const dl_column *column);
dl_datum dl_column_get_unsigned(const void *row, const dl_column *column);
dl_datum dl_column_get_int64(const void *row, const dl_column *column);
dl_datum dl_column_get_size(const void *row, const dl_column *column);
dl_datum dl_column_get_text(const void *row, const dl_column *column);
dl_datum dl_column_get_chars(const void *row, const dl_column *column); /* of an array in the row */

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
    const dl_column *const *columns; /* [column_count]; NULL: `list` has them */
    const dl_column *list;
    size_t column_count;
    const void *rows; /* [row_count], of row_bytes each */
    size_t row_count, row_bytes;
    int indent; /* blanks before each line of text */
    /* NULL, or returns a text that replaces the row's cells from column `failed_from` on, for
     * people; or NULL if the row is whole. */
    const char *(*failed)(const void *row);
    size_t failed_from;
    /* NULL, or returns a mark after the row for people ("*"), "" for none. */
    const char *(*mark)(const void *row);
    char *(*remark)(const void *row); /* NULL, or returns a new text about the row, or NULL */
    const void *chosen;               /* a row that stands out; NULL: none */
    /* NULL, or returns the row's class in HTML, or NULL. */
    const char *(*row_class)(const void *row);
} dl_column_table;

/* The table of all columns of an array `list_` and the rows rows_[count_]; further members may be
 * set. */
#define DL_COLUMN_TABLE(list_, rows_, count_)                                                      \
    (dl_column_table)                                                                              \
    {                                                                                              \
        .list = (list_), .column_count = DL_LENGTH(list_), .rows = (rows_), .row_count = (count_), \
        .row_bytes = sizeof *(rows_)                                                               \
    }

const void *dl_column_table_row(const dl_column_table *table, size_t row);
const dl_column *dl_column_table_column(const dl_column_table *table, size_t column);

/* Writes the names, or a row's values, as CSV cells of the columns that have a name; the caller
 * ends each row. */
void dl_columns_csv_names(dl_csv_writer *writer, const dl_column *const *columns, size_t count);
void dl_columns_csv_row(dl_csv_writer *writer, const dl_column *const *columns, size_t count,
                        const void *row);

/* Writes the names of a table's columns and all of its rows. */
void dl_columns_csv(dl_csv_writer *writer, const dl_column_table *table);

/* A number in the column's form, as a new string. */
char *dl_column_number_text(const dl_column *column, double number);

/* A row's value for people, as a new string; "" if there is none. */
char *dl_column_cell_text(const dl_column *column, const void *row);

/* Whether any row of the table has a value in the column. */
bool dl_column_has_values(const dl_column_table *table, const dl_column *column);

/* The value that all rows have in the column, for people, as a new string; NULL if they differ or
 * there is none. */
char *dl_column_common_text(const dl_column_table *table, const dl_column *column);

/* Prints the columns that have a heading and a value in some row as lines of text, each as wide as
 * its cells need, texts to the left, numbers to the right, "-" for none. The chosen row is marked
 * with '>', and is bold on a terminal. A remark follows its row, or stands below it if `width` has
 * no room for it. */
void dl_columns_print(FILE *out, const dl_column_table *table, size_t width);

/* The width that dl_columns_print gives a column; and the further width of a line besides columns
 * and the blanks between them, for marks and for the sign before the chosen row. */
size_t dl_column_width(const dl_column_table *table, const dl_column *column);
size_t dl_columns_extra(const dl_column_table *table);

#endif
