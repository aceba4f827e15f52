/* Manual pages (man(7)) and bash completion, generated from the tables of command-line options
 * (options.h) and INI keys (keys.h). `PROGRAM --print-man` and `PROGRAM --print-completion`, which
 * --help does not show, print them for the installation. For arguments that only the program can
 * list, the completion runs `PROGRAM --complete OPTION TYPED`. */
#ifndef DL_COMMON_MANUAL_H
#define DL_COMMON_MANUAL_H

#include <stdio.h>

/* An entry of a list terminated by {NULL}. */
typedef struct dl_manual_item {
    const char *name, *text;
} dl_manual_item;

/* Parts of a program's page that its tables do not give. */
typedef struct dl_manual {
    const char *title;                /* purpose: "simulate training" */
    const char *description;          /* paragraphs, separated by empty lines */
    const dl_manual_item *exit_codes; /* other than 0, 1 and 2; these lists may be NULL */
    const dl_manual_item *environment, *files;
    const char *see_also; /* "dlsim(1), dlscale-costs(5)" */
} dl_manual;

/* Writes the page's head and the section NAME. */
void dl_man_head(FILE *out, const char *name, int section, const char *title);

void dl_man_heading(FILE *out, const char *title);
void dl_man_see_also(FILE *out, const char *names);

/* Writes the text wrapped into lines, with roff requests escaped; a newline breaks the line, an
 * empty line starts a paragraph. */
void dl_man_text(FILE *out, const char *text);

/* Writes part of a line, escaped, without wrapping or ending it. */
void dl_man_words(FILE *out, const char *text);

/* For a dl_complete_fn (options.h): if `word` starts with typed[kept...], prints a line with the
 * first `kept` bytes of `typed` and `word`. */
void dl_complete_word(FILE *out, const char *typed, size_t kept, const char *word);

#endif
