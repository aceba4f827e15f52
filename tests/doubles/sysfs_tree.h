/* A folder with files like those of Linux in /sys, for tests. */
#ifndef DL_TESTS_DOUBLES_SYSFS_TREE_H
#define DL_TESTS_DOUBLES_SYSFS_TREE_H

/* Makes an empty new folder; release with sysfs_tree_free. */
char *sysfs_tree_make(void);

/* Writes `text` to root/path and makes the folders in between. */
void sysfs_tree_put(const char *root, const char *path, const char *text);

/* Writes the files of a PCI device: speeds as "8.0 GT/s PCIe"; NULL and 0 leave a file out. */
void sysfs_tree_put_link(const char *root, const char *bus_id, const char *max_speed, int max_width,
                         int width);

/* Removes the folder. */
void sysfs_tree_free(char *root);

#endif
