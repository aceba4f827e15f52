/* Folders that tests write into. */
#ifndef DL_TESTS_FOLDER_H
#define DL_TESTS_FOLDER_H

#include "tests/check.h"

#include <dirent.h>

/* Files in a folder that are not hidden. */
static inline int count_files(const char *path)
{
    int count = 0;
    DIR *dir = opendir(path);
    assert_non_null(dir);
    const struct dirent *entry;
    while ((entry = readdir(dir)) != NULL)
        count += entry->d_name[0] != '.';
    closedir(dir);
    return count;
}

#endif
