#include "tests/doubles/sysfs_tree.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/alloc.h"
#include "common/status.h"

char *sysfs_tree_make(void)
{
    const char *folder = getenv("TMPDIR");
    char *root = dl_format("%s/sysfs-XXXXXX", folder != NULL ? folder : "/tmp");
    DL_ASSERT(mkdtemp(root) != NULL, "cannot make %s", root);
    return root;
}

void sysfs_tree_put(const char *root, const char *path, const char *text)
{
    DL_AUTOFREE char *full = dl_format("%s/%s", root, path);
    for (char *slash = full + strlen(root) + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = '\0';
        mkdir(full, 0700);
        *slash = '/';
    }
    FILE *file = fopen(full, "w");
    DL_ASSERT(file != NULL, "cannot write %s", full);
    fprintf(file, "%s\n", text);
    fclose(file);
}

static void put(const char *root, const char *bus_id, const char *file, const char *text)
{
    DL_AUTOFREE char *path = dl_format("bus/pci/devices/%s/%s", bus_id, file);
    sysfs_tree_put(root, path, text);
}

void sysfs_tree_put_link(const char *root, const char *bus_id, const char *max_speed, int max_width,
                         int width)
{
    char number[16];
    if (max_speed != NULL) put(root, bus_id, "max_link_speed", max_speed);
    snprintf(number, sizeof number, "%d", max_width);
    if (max_width > 0) put(root, bus_id, "max_link_width", number);
    snprintf(number, sizeof number, "%d", width);
    if (width > 0) put(root, bus_id, "current_link_width", number);
}

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *walk)
{
    (void)info, (void)type, (void)walk;
    return remove(path);
}

void sysfs_tree_free(char *root)
{
    nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(root);
}
