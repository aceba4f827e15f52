/* Commands of a program called as functions, with what they print in hand. */
#ifndef DL_TESTS_COMMAND_H
#define DL_TESTS_COMMAND_H

#include "tests/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Whose text is wanted; the other stream goes where it always goes. */
typedef enum command_stream {
    COMMAND_OUT = STDOUT_FILENO,
    COMMAND_ERR = STDERR_FILENO,
    COMMAND_BOTH = STDOUT_FILENO | STDERR_FILENO
} command_stream;

/* All of `file` as text; the caller frees it. */
static inline char *command_text(FILE *file)
{
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    const long bytes = ftell(file);
    assert_true(bytes >= 0);
    char *text = malloc((size_t)bytes + 1);
    assert_non_null(text);
    rewind(file);
    assert_int_equal(fread(text, 1, (size_t)bytes, file), bytes);
    text[bytes] = '\0';
    return text;
}

/* Returns the exit status of command(argc, argv), and what it prints to `stream` in *text, which
 * the caller frees. */
static inline int run_command(int (*command)(int, char **), char **argv, command_stream stream,
                              char **text)
{
    int argc = 0, kept[COMMAND_BOTH];
    while (argv[argc] != NULL)
        argc++;
    FILE *file = tmpfile();
    assert_non_null(file);
    fflush(NULL);
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++) {
        kept[fd] = dup(fd);
        if (((int)stream & fd) != 0) dup2(fileno(file), fd);
    }
    const int status = command(argc, argv);
    fflush(NULL);
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++) {
        dup2(kept[fd], fd);
        close(kept[fd]);
    }
    *text = command_text(file);
    fclose(file);
    return status;
}

#endif
