/* SPDX-License-Identifier: Apache-2.0 */
/* Reads this machine from /sys. */
#include <dirent.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include "topology.h"

#define TEXT_MAX      4096u
#define VENDOR_NVIDIA 0x10deu

struct sysfs {
	struct machine *m;
	const char *root;
};

__attribute__((format(printf, 3, 4))) static int path_of(const struct sysfs *s, char path[PATH_MAX],
							 const char *fmt, ...)
{
	size_t len = strlen(s->root);
	va_list args;
	int n;

	if (len >= PATH_MAX)
		return -ENAMETOOLONG;
	memcpy(path, s->root, len);
	va_start(args, fmt);
	n = vsnprintf(path + len, PATH_MAX - len, fmt, args);
	va_end(args);
	return n < 0 || (size_t)n >= PATH_MAX - len ? -ENAMETOOLONG : 0;
}

static int read_at(const char *dir, const char *name, char *to, size_t size)
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	return file_line(path, to, size);
}

/* Reads a number of any base from a file. Returns `otherwise` if there is no number. */
static long number_at(const char *dir, const char *name, long otherwise)
{
	char text[64];

	if (read_at(dir, name, text, sizeof(text)) || !*text)
		return otherwise;
	return strtol(text, NULL, 0);
}

/* ---- NUMA nodes ---- */

static int by_number(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void read_node(const struct sysfs *s, struct node *node)
{
	char path[PATH_MAX], text[TEXT_MAX], *word, *rest;
	uint32_t n = 0;

	if (path_of(s, path, "/sys/devices/system/node/node%u", node->id))
		return;
	/* A node with memory alone has an empty list. */
	if (!read_at(path, "cpulist", text, sizeof(text)) && *text)
		cpus_parse(text, &node->cpus);
	if (read_at(path, "distance", text, sizeof(text)))
		return;
	for (word = strtok_r(text, " ", &rest); word && n < s->m->nnodes;
	     word = strtok_r(NULL, " ", &rest))
		node->distance[n++] = (uint8_t)strtoul(word, NULL, 10);
}

/* A kernel without NUMA has no such directory; the machine then has one node. */
static void read_nodes(struct sysfs *s)
{
	uint32_t ids[NODES_MAX], n = 0, i;
	char path[PATH_MAX];
	struct dirent *e;
	DIR *dir;

	path_of(s, path, "/sys/devices/system/node");
	dir = opendir(path);
	while (dir && n < NODES_MAX && (e = readdir(dir)))
		n += sscanf(e->d_name, "node%u", &ids[n]) == 1;
	if (dir)
		closedir(dir);
	if (!n)
		ids[n++] = 0;
	qsort(ids, n, sizeof(*ids), by_number);
	for (i = 0; i < n; i++)
		machine_add_node(s->m, ids[i]);
	for (i = 0; i < n; i++)
		read_node(s, &s->m->nodes[i]);
}

/* ---- the place of a device ---- */

static int is_pci(const char *word, size_t len)
{
	unsigned int domain, bus, device, function;
	int n = 0;

	return len < ADDRESS_MAX &&
	       sscanf(word, "%x:%x:%x.%x%n", &domain, &bus, &device, &function, &n) == 4 &&
	       (size_t)n == len;
}

static int is_host(const char *word, size_t len)
{
	unsigned int domain, bus;
	int n = 0;

	return len < ADDRESS_MAX && sscanf(word, "pci%x:%x%n", &domain, &bus, &n) == 2 &&
	       (size_t)n == len;
}

/* Returns the place of a bridge; adds the place if it is new. */
static int bridge(struct machine *m, enum place_kind kind, uint32_t parent, const char *address)
{
	uint32_t i;

	for (i = 0; i < m->nplaces; i++)
		if (m->places[i].kind == kind && m->places[i].parent == parent &&
		    !strcmp(m->places[i].address, address))
			return (int)i;
	return machine_add_place(m, kind, parent, address);
}

#define STEPS_MAX 32u

/* Splits "/sys/devices/pci0000:15/0000:15:01.0/0000:18:00.0" into host bridge, bridges and device.
 * Returns their number. A path component without a PCI address (virtio2, mlx5_core.sf.4) is part of
 * the device. A host bridge below another device (VMD) counts as a bridge. */
static uint32_t steps_of(const char *path, char steps[STEPS_MAX][ADDRESS_MAX])
{
	uint32_t n = 0;
	size_t len, skip;

	for (; *path && n < STEPS_MAX; path += len + (path[len] == '/')) {
		len = strcspn(path, "/");
		skip = is_host(path, len) ? strlen("pci") : 0;
		if (!skip && (!n || !is_pci(path, len)))
			continue;
		memcpy(steps[n], path + skip, len - skip);
		steps[n++][len - skip] = 0;
	}
	return n;
}

static int place_by_path(struct machine *m, const char *path, enum place_kind kind)
{
	char steps[STEPS_MAX][ADDRESS_MAX];
	uint32_t i, n = steps_of(path, steps), parent = NO_PLACE;
	int at;

	for (i = 0; i + 1 < n; i++) {
		at = bridge(m, i ? PLACE_BRIDGE : PLACE_HOST, parent, steps[i]);
		if (at < 0)
			return at;
		parent = (uint32_t)at;
	}
	return n > 1 ? machine_add_place(m, kind, parent, steps[n - 1]) : -ENODEV;
}

/* dir is the directory of the device, or a link to it. */
static int place_of(struct sysfs *s, const char *dir, enum place_kind kind)
{
	char real[PATH_MAX];
	int at;
	long node;

	if (!realpath(dir, real))
		return -errno;
	at = place_by_path(s->m, real, kind);
	if (at < 0)
		return at;
	node = number_at(dir, "numa_node", -1);
	if (node >= 0)
		node = machine_node(s->m, (uint32_t)node);
	s->m->places[at].node = (int16_t)(node < 0 ? -1 : node);
	return at;
}

/* ---- GPUs ---- */

/* In a container the directory of NVIDIA's driver lists the container's GPUs alone, and /dev has
 * device nodes for these. A GPU that lacks either is hidden. */
static int gpu_is_hidden(const struct sysfs *s, const char *address)
{
	char path[PATH_MAX], line[256];
	int minor = -1;
	FILE *f;

	path_of(s, path, "/proc/driver/nvidia/gpus");
	if (access(path, X_OK))
		return 0;
	path_of(s, path, "/proc/driver/nvidia/gpus/%s/information", address);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		sscanf(line, "Device Minor: %d", &minor);
	if (f)
		fclose(f);
	if (!f || path_of(s, path, "/dev/nvidia%d", minor))
		return 1;
	return minor >= 0 && access(path, R_OK | W_OK);
}

static int read_gpu(struct sysfs *s, const char *address)
{
	char dir[PATH_MAX];
	uint32_t class, vendor;
	int at;

	if (path_of(s, dir, "/sys/bus/pci/devices/%s", address))
		return 0;
	class = (uint32_t)number_at(dir, "class", 0) >> 8;
	vendor = (uint32_t)number_at(dir, "vendor", 0);
	if (!machine_is_gpu(class, vendor))
		return 0;
	at = place_of(s, dir, PLACE_GPU);
	if (at >= 0 && vendor == VENDOR_NVIDIA)
		s->m->places[at].hidden = (uint8_t)gpu_is_hidden(s, address);
	return at == -ENOSPC ? at : 0;
}

/* ---- NICs ---- */

static uint8_t layer_of(const char *text)
{
	if (!strcmp(text, "InfiniBand"))
		return LINK_INFINIBAND;
	return !strcmp(text, "Ethernet") ? LINK_ETHERNET : LINK_OTHER;
}

static int read_port(struct sysfs *s, uint32_t nic, const char *dir, uint32_t number)
{
	char path[PATH_MAX], text[64];
	struct port *p;
	int at;

	if (snprintf(path, sizeof(path), "%s/ports/%u", dir, number) >= (int)sizeof(path) ||
	    access(path, X_OK))
		return -ENOENT;
	at = machine_add_port(s->m, nic, number);
	if (at < 0)
		return 0;
	p = &s->m->ports[at];
	p->up = number_at(path, "state", 0) == 4; /* "4: ACTIVE" */
	if (!read_at(path, "rate", text, sizeof(text)))
		p->mbps = machine_rate(text);
	p->layer = LINK_OTHER;
	if (!read_at(path, "link_layer", text, sizeof(text)))
		p->layer = layer_of(text);
	return 0;
}

/* Programs open a NIC through a device node, which a container may lack. */
static int nic_is_hidden(const struct sysfs *s, const char *name)
{
	char path[PATH_MAX], text[NIC_NAME_MAX + 2];
	int hidden = 1;
	struct dirent *e;
	DIR *dir;

	path_of(s, path, "/sys/class/infiniband_verbs");
	dir = opendir(path);
	while (dir && hidden && (e = readdir(dir))) {
		if (strncmp(e->d_name, "uverbs", 6) ||
		    path_of(s, path, "/sys/class/infiniband_verbs/%s", e->d_name) ||
		    read_at(path, "ibdev", text, sizeof(text)) || strcmp(text, name))
			continue;
		path_of(s, path, "/dev/infiniband/%s", e->d_name);
		hidden = access(path, R_OK | W_OK) != 0;
	}
	if (dir)
		closedir(dir);
	return hidden;
}

/* A software NIC (rxe, siw) has the place of its network interface. If that is a virtual interface,
 * the NIC hangs on a host bridge made up for it. */
static int soft_nic(struct sysfs *s, const char *dir, const char *name)
{
	char path[PATH_MAX], text[64], address[ADDRESS_MAX];
	int at = -ENODEV;

	if (!read_at(dir, "parent", text, sizeof(text)) &&
	    !path_of(s, path, "/sys/class/net/%s/device", text))
		at = place_of(s, path, PLACE_NIC);
	if (at >= 0 || at == -ENOSPC)
		return at;
	at = bridge(s->m, PLACE_HOST, NO_PLACE, "virtual");
	if (at < 0)
		return at;
	snprintf(address, sizeof(address), "virtual:%s", name);
	return machine_add_place(s->m, PLACE_NIC, (uint32_t)at, address);
}

static int read_nic(struct sysfs *s, const char *name)
{
	char dir[PATH_MAX], path[PATH_MAX];
	uint32_t port;
	int at, err = 0;

	if (*name == '.' || strlen(name) > NIC_NAME_MAX ||
	    path_of(s, dir, "/sys/class/infiniband/%s", name) ||
	    path_of(s, path, "/sys/class/infiniband/%s/device", name))
		return 0;
	at = place_of(s, path, PLACE_NIC);
	if (at < 0 && at != -ENOSPC)
		at = soft_nic(s, dir, name);
	if (at < 0)
		return at;
	memcpy(s->m->places[at].name, name, strlen(name) + 1);
	s->m->places[at].hidden = (uint8_t)nic_is_hidden(s, name);
	for (port = 1; port <= NIC_PORT_MAX && !err; port++)
		err = read_port(s, (uint32_t)at, dir, port);
	return err == -ENOENT ? 0 : err;
}

/* ---- all of it ---- */

static int each_entry(struct sysfs *s, const char *where,
		      int (*one)(struct sysfs *s, const char *name))
{
	char path[PATH_MAX];
	struct dirent *e;
	int err = 0;
	DIR *dir;

	path_of(s, path, "%s", where);
	dir = opendir(path);
	while (dir && !err && (e = readdir(dir)))
		err = one(s, e->d_name);
	if (dir)
		closedir(dir);
	return err;
}

int machine_read_sysfs(struct machine *m, const char *root)
{
	struct sysfs s = {.m = m, .root = root};
	int err;

	read_nodes(&s);
	err = each_entry(&s, "/sys/bus/pci/devices", read_gpu);
	if (!err)
		err = each_entry(&s, "/sys/class/infiniband", read_nic);
	return err ? err : machine_finish(m);
}
