/* SPDX-License-Identifier: Apache-2.0 */
/* A machine is read from /sys: here from a folder made as the kernel makes it. */
#include <stdarg.h>
#include <sys/stat.h>
#include "german.h"
#include "load.h"

#define PCI	   "/sys/bus/pci/devices/"
#define IB	   "/sys/class/infiniband/"

#define PORTS	   8u /* of make_machine() */
#define MANY_NICS  16u
#define MANY_PORTS 17u

static char root[] = "/tmp/urccl-sysfs-XXXXXX";

__attribute__((format(printf, 2, 3))) static void path_to(char path[512], const char *fmt, ...)
{
	int n = snprintf(path, 512, "%s", root);
	va_list args;

	va_start(args, fmt);
	vsnprintf(path + n, 512 - (size_t)n, fmt, args);
	va_end(args);
}

/* And all folders above it. */
static void make_dir(const char *dir)
{
	char path[512], *slash;

	path_to(path, "%s", dir);
	for (slash = strchr(path + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = 0;
		CHECK(!mkdir(path, 0700) || errno == EEXIST);
		*slash = '/';
	}
	CHECK(!mkdir(path, 0700) || errno == EEXIST);
}

static void put(const char *dir, const char *name, const char *text)
{
	char path[512];
	FILE *f;

	make_dir(dir);
	path_to(path, "%s/%s", dir, name);
	f = fopen(path, "w");
	CHECK(f);
	CHECK_GE(fprintf(f, "%s\n", text), 0);
	CHECK_EQ(fclose(f), 0);
}

static void make_link(const char *from, const char *to)
{
	char path[512], target[512];

	path_to(path, "%s", from);
	path_to(target, "%s", to);
	CHECK_EQ(symlink(target, path), 0);
}

/* where: below /sys/devices/, the address last. */
static void device(const char *where, const char *class, const char *vendor, const char *node)
{
	char dir[256], link[256];

	snprintf(dir, sizeof(dir), "/sys/devices/%s", where);
	put(dir, "class", class);
	put(dir, "vendor", vendor);
	put(dir, "numa_node", node);
	make_dir(PCI);
	snprintf(link, sizeof(link), PCI "%s", strrchr(where, '/') + 1);
	make_link(link, dir);
}

/* where "": a virtual one. verbs NULL: no device node. */
static void nic(const char *where, const char *name, const char *verbs)
{
	char dir[256], link[300], device_dir[256];

	snprintf(dir, sizeof(dir), "/sys/devices/%s/infiniband/%s", *where ? where : "virtual",
		 name);
	make_dir(dir);
	make_dir(IB);
	snprintf(link, sizeof(link), IB "%s", name);
	make_link(link, dir);
	if (*where) {
		snprintf(device_dir, sizeof(device_dir), "/sys/devices/%s", where);
		snprintf(link, sizeof(link), "%s/device", dir);
		make_link(link, device_dir);
	}
	if (verbs) {
		snprintf(link, sizeof(link), "/sys/class/infiniband_verbs/%s", verbs);
		put(link, "ibdev", name);
		put("/dev/infiniband", verbs, "");
	}
}

static void port(const char *name, const char *number, const char *state, const char *rate,
		 const char *layer)
{
	char dir[256];

	snprintf(dir, sizeof(dir), IB "%s/ports/%s", name, number);
	put(dir, "state", state);
	put(dir, "rate", rate);
	put(dir, "link_layer", layer);
}

static void make_machine(void)
{
	put("/sys/devices/system/node/node0", "cpulist", "0-3,8-11");
	put("/sys/devices/system/node/node0", "distance", "10 21 80");
	put("/sys/devices/system/node/node1", "cpulist", "4-7,12-15");
	put("/sys/devices/system/node/node1", "distance", "21 10 120");
	/* Memory alone, and a number left out. */
	put("/sys/devices/system/node/node10", "cpulist", "");
	put("/sys/devices/system/node/node10", "distance", "80 120 10");

	/* A GPU and a NIC on a switch, and what is neither. */
	device("pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:18:00.0", "0x020700",
	       "0x15b3", "0");
	device("pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:02.0/0000:1b:00.0", "0x030200",
	       "0x10de", "0");
	device("pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:04.0/0000:1c:00.0", "0x010802",
	       "0x144d", "0");
	device("pci0000:00/0000:00:02.0/0000:03:00.0", "0x030000", "0x1a03", "0");
	nic("pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:18:00.0", "mlx5_0", "uverbs1");
	port("mlx5_0", "1", "4: ACTIVE", "400 Gb/sec (4X NDR)", "InfiniBand");

	/* A card with two functions; the second belongs to another container. */
	device("pci0000:97/0000:97:01.0/0000:98:00.0", "0x020000", "0x15b3", "1");
	device("pci0000:97/0000:97:01.0/0000:98:00.1", "0x020000", "0x15b3", "1");
	nic("pci0000:97/0000:97:01.0/0000:98:00.0", "mlx5_10", "uverbs2");
	port("mlx5_10", "1", "4: ACTIVE", "100 Gb/sec (4X EDR)", "Ethernet");
	nic("pci0000:97/0000:97:01.0/0000:98:00.1", "mlx5_11", NULL);
	port("mlx5_11", "1", "1: DOWN", "2.5 Gb/sec (1X SDR)", "Ethernet");

	/* Two ports of one device, behind a host bridge within another (VMD), of AMD a GPU. */
	device("pci0000:97/0000:97:05.5/pci10000:e0/10000:e0:02.0/10000:e1:00.0", "0x020000",
	       "0x15b3", "-1");
	nic("pci0000:97/0000:97:05.5/pci10000:e0/10000:e0:02.0/10000:e1:00.0", "mlx4_0", "uverbs0");
	port("mlx4_0", "1", "4: ACTIVE", "40 Gb/sec (4X QDR)", "Ethernet");
	port("mlx4_0", "2", "2: INIT", "40 Gb/sec (4X QDR)", "InfiniBand");
	device("pci0000:97/0000:97:02.0/0000:9a:00.0", "0x120000", "0x1002", "1");

	/* Software: on the first card's interface, on one that is no device, and EFA. */
	make_dir("/sys/class/net/eth0");
	make_link("/sys/class/net/eth0/device",
		  "/sys/devices/pci0000:97/0000:97:01.0/0000:98:00.0");
	nic("", "rxe0", "uverbs3");
	put(IB "rxe0", "parent", "eth0");
	port("rxe0", "1", "4: ACTIVE", "2.5 Gb/sec (1X SDR)", "Ethernet");
	nic("", "rxe_v0", "uverbs4");
	put(IB "rxe_v0", "parent", "v0");
	port("rxe_v0", "1", "4: ACTIVE", "2.5 Gb/sec (1X SDR)", "Ethernet");
	device("pci0002:00/0002:00:01.0", "0x020000", "0x1d0f", "1");
	nic("pci0002:00/0002:00:01.0", "rdmap0s1", "uverbs5");
	port("rdmap0s1", "1", "4: ACTIVE", "100 Gb/sec (4X EDR)", "Unknown");
}

/* Bridges without a GPU or NIC below are left out. */
static const char expected[] = "node 0 cpus 0-3,8-11 distance 10 21 80\n"
			       "node 1 cpus 4-7,12-15 distance 21 10 120\n"
			       "node 10 distance 80 120 10\n"
			       "host 0000:15\n"
			       "\tbridge 0000:15:01.0\n"
			       "\t\tbridge 0000:16:00.0\n"
			       "\t\t\tbridge 0000:17:00.0\n"
			       "\t\t\t\tnic 0000:18:00.0 mlx5_0 node 0\n"
			       "\t\t\t\t\tport 1 up 400 infiniband\n"
			       "\t\t\tbridge 0000:17:02.0\n"
			       "\t\t\t\tgpu 0000:1b:00.0 node 0\n"
			       "host 0000:97\n"
			       "\tbridge 0000:97:01.0\n"
			       "\t\tnic 0000:98:00.0 mlx5_10 node 1\n"
			       "\t\t\tport 1 up 100 ethernet\n"
			       "\t\tnic 0000:98:00.0 rxe0 node 1\n"
			       "\t\t\tport 1 up 2.5 ethernet\n"
			       "\t\tnic 0000:98:00.1 mlx5_11 node 1 hidden\n"
			       "\t\t\tport 1 down 2.5 ethernet\n"
			       "\tbridge 0000:97:02.0\n"
			       "\t\tgpu 0000:9a:00.0 node 1\n"
			       "\tbridge 0000:97:05.5\n"
			       "\t\tbridge 10000:e0\n"
			       "\t\t\tbridge 10000:e0:02.0\n"
			       "\t\t\t\tnic 10000:e1:00.0 mlx4_0\n"
			       "\t\t\t\t\tport 1 up 40 ethernet\n"
			       "\t\t\t\t\tport 2 down 40 infiniband\n"
			       "host 0002:00\n"
			       "\tnic 0002:00:01.0 rdmap0s1 node 1\n"
			       "\t\tport 1 up 100 other\n"
			       "host virtual\n"
			       "\tnic virtual:rxe_v0 rxe_v0\n"
			       "\t\tport 1 up 2.5 ethernet\n";

static void check_machine(void)
{
	struct machine m;

	CHECK_EQ(machine_init(&m), 0);
	CHECK_EQ(machine_read_sysfs(&m, root), 0);
	check_read(&m, expected);
}

/* More ports than there is room for: the rest is left out, and is told of. */
static void check_many(void)
{
	struct question q = {.kind = FOR_ANY};
	static struct plan p;
	char name[32], number[8], text[65536];
	uint32_t i, k;
	struct machine m;

	for (i = 0; i < MANY_NICS; i++) {
		snprintf(name, sizeof(name), "rxe_m%u", i);
		nic("", name, NULL);
		for (k = 1; k <= MANY_PORTS; k++) {
			snprintf(number, sizeof(number), "%u", k);
			port(name, number, "4: ACTIVE", "2.5 Gb/sec (1X SDR)", "Ethernet");
		}
	}
	CHECK_EQ(machine_init(&m), 0);
	CHECK_EQ(machine_read_sysfs(&m, root), 0);
	CHECK_EQ(m.nports, PORTS_MAX);
	CHECK_EQ(m.nleft, PORTS + MANY_NICS * MANY_PORTS - PORTS_MAX);
	machine_plan(&m, &q, &p);
	CHECK_EQ(p.n, PORTS_MAX);
	CHECK_LE(plan_text(&m, &q, &p, text, sizeof(text)), sizeof(text) - 1);
	snprintf(name, sizeof(name), "and %u ports more", m.nleft);
	CHECK(strstr(text, name));
	machine_fini(&m);
}

/* Whatever machine this is, it is read, and has a node. */
static void check_this(void)
{
	struct question q = {.kind = FOR_ANY};
	static struct plan p;
	char text[65536];
	struct machine m;

	CHECK_EQ(machine_init(&m), 0);
	CHECK_EQ(machine_read_sysfs(&m, ""), 0);
	CHECK_GE(m.nnodes, 1);
	machine_write(&m, stdout);
	machine_plan(&m, &q, &p);
	CHECK_LE(plan_text(&m, &q, &p, text, sizeof(text)), sizeof(text) - 1);
	printf("%s", text);
	machine_fini(&m);
}

int main(void)
{
	char command[64];

	german_begin();
	CHECK(mkdtemp(root));
	make_machine();
	check_machine();
	check_many();
	snprintf(command, sizeof(command), "rm -r %s", root);
	CHECK_EQ(system(command), 0);
	check_this();
	return 0;
}
